"""Whole jobs: every outcome, each from what the servers did."""

import pytest

from advisor.search.knob import Knob
from advisor.search.space import Space, Variant
from advisor.terms.advice import AdviceOutcome
from advisor.terms.errors import Blocked, TargetError
from advisor.terms.job import Objective, Phase
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict
from tests.contract.scripted_bench import Dials, failure
from tests.unit.tune.jobs import BASELINE, SEQS, SPACE, World, by_seqs, lucky, seqs, spec_with

SLOW = Dials(carries=0.0)
#: A crash in itself says nothing about a setting.
OURS = failure(Reason.PORT_TAKEN, "the port is taken")


def test_recommended_where_the_baseline_misses_at_the_load() -> None:
    world = World(by_seqs({BASELINE: Dials(carries=0.5), 16: Dials(carries=2)}, SLOW))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice is not None
    assert advice.choice.setting.get(SEQS) == 16
    assert advice.choice.confirmed
    assert advice.reasons[0] == (
        "Confirmed on 3 held-out windows, each on a fresh launch: it meets the targets at the "
        "job's load, where the baseline misses them"
    )
    assert advice.diff == ("--max-num-seqs 256 -> 16",)
    assert (advice.search_launches, advice.confirm_launches) == (4, 6)


def test_recommended_where_it_carries_more_than_the_baseline() -> None:
    world = World(by_seqs({16: Dials(carries=2)}))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert "it carries 2x the recorded load, where the baseline misses" in advice.reasons[0]
    assert advice.choice is not None
    assert str(advice.choice.headroom) == "2 .. 2.21"


def test_recommended_where_the_baseline_does_not_run() -> None:
    table = {BASELINE: Dials(start=failure()), 8: Dials(carries=2)}
    world = World(by_seqs(table, SLOW))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert "where the baseline does not run" in advice.reasons[0]
    assert advice.baseline is not None
    assert advice.baseline.measurement is None
    assert "Settings that did not run: oom_load x1" in advice.reasons


def test_recommended_where_the_baseline_ends_under_the_claimed_load() -> None:
    world = World(by_seqs({BASELINE: Dials(crash_above=1.2), 16: Dials(carries=2)}, SLOW))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert "it carries 2x the recorded load, where the baseline ends" in advice.reasons[0]


def test_recommended_by_pairs_on_a_target_that_the_baseline_leaves_undecided() -> None:
    clumped = Dials(slow_share=0.06)
    world = World(by_seqs({BASELINE: clumped, 16: Dials(ttft_ms=50, itl_ms=5)}, SLOW))
    advice = world.run()
    (baseline,) = world.of(Phase.BASELINE)
    at_load = baseline.result.at(1.0)
    assert at_load is not None
    assert at_load.verdict is Verdict.UNDECIDED
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert (
        "times the baseline's over 3 pairs, a target that the baseline is not proven to meet"
        in (advice.reasons[0])
    )


def test_launches_of_the_baseline_that_fail_by_our_fault_prove_no_gain() -> None:
    world = World(by_seqs({BASELINE: Dials(start=OURS), 8: Dials(carries=2)}, SLOW))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0].startswith("The best setting found meets the targets on held-out")


def test_a_flat_landscape_keeps_the_current_setting() -> None:
    world = World(by_seqs({}))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert advice.choice is not None
    assert advice.choice.setting.get(SEQS) == BASELINE
    assert advice.diff == ()
    assert advice.reasons[0] == (
        "No setting tried carries more load within the targets than the current one; the current "
        "setting is proven to meet the targets on held-out load"
    )
    assert seqs(world.of(Phase.CONFIRM)) == [BASELINE] * 3


def test_a_tie_at_the_top_keeps_the_current_setting() -> None:
    """Faster within the targets is no gain when no more load is carried."""
    world = World(by_seqs({BASELINE: Dials(carries=1.5), 32: Dials(50, 5, carries=1.5)}))
    assert world.run().outcome is AdviceOutcome.KEEP_CURRENT
    assert seqs(world.of(Phase.CONFIRM)) == [BASELINE] * 3


def test_a_gain_that_held_out_load_does_not_show_keeps_the_current_setting() -> None:
    world = lucky({16: 2.0})
    advice = world.run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert advice.reasons[0].startswith("No gain over the current setting is proven for 1 final")
    assert len(world.of(Phase.CONFIRM)) == 12


def test_none_meets_names_the_nearest_with_its_bracket_and_its_gap() -> None:
    world = World(by_seqs({32: Dials(carries=0.5)}, SLOW))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NONE_MEETS
    assert advice.choice is not None
    assert advice.choice.setting.get(SEQS) == 32
    assert str(advice.choice.headroom) == "0.5 .. 1"
    assert not advice.choice.confirmed
    assert advice.reasons[0] == "Each setting that ran (4) provably misses a target at 1x the load"
    assert advice.reasons[1] == (
        "Nearest is trial 3: its headroom is 0.5 .. 1 times the recorded load"
    )
    assert advice.reasons[2].startswith("TTFT p95 missed: 100.0 % of requests over 1000 ms, at l")
    assert world.of(Phase.CONFIRM) == []


def test_a_failure_is_never_the_best() -> None:
    """Refused settings and failed requests rank below everything that was slow."""
    table = {8: Dials(start=failure()), 16: Dials(1, 1, failed_share=1.0, carries=9)}
    world = World(by_seqs({**table, BASELINE: Dials(carries=0.5)}, SLOW))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NONE_MEETS
    assert advice.choice is not None
    assert advice.choice.setting.get(SEQS) == BASELINE
    assert "Each setting that ran (3)" in advice.reasons[0]


def test_nothing_that_can_run_is_none_meets_without_a_nearest() -> None:
    world = World(by_seqs({}, Dials(start=failure(Reason.KV_CACHE_TOO_SMALL, "no room"))))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NONE_MEETS
    assert advice.choice is None
    assert advice.reasons == (
        "No setting tried can run here",
        "The search ended after 4 launches, its budget",
        "Settings that did not run: kv_cache_too_small x4",
    )


def test_not_proven_when_the_sample_cannot_decide() -> None:
    world = World(by_seqs({}, Dials(slow_share=0.06)))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.outcome.exit_code == 4
    assert any(reason.startswith("TTFT p95 undecided: ") for reason in advice.reasons)


def test_blocked_after_five_failures_in_a_row() -> None:
    world = World(by_seqs({BASELINE: Dials()}, Dials(start=OURS)), spec_with(launches=12))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.BLOCKED
    assert advice.outcome.exit_code == 6
    assert advice.reasons[0] == "5 launches in a row failed, the last: the port is taken"
    assert len(world.bench.launched) == 6
    assert world.ledger.job(world.job.id).state == "done"


def test_blocked_when_the_fifth_failure_was_the_last_launch_planned() -> None:
    world = World(by_seqs({}, Dials(start=OURS)), spec_with(launches=5))
    assert world.run().outcome is AdviceOutcome.BLOCKED


def test_infeasible_settings_do_not_block() -> None:
    space = Space((Knob.of(SEQS, [1, 2, 4, 8, 16, 32, 64]),))
    table = {BASELINE: Dials(carries=0.5), 64: Dials(carries=1.5)}
    dead = Dials(start=failure(Reason.INVALID_SETTING, "no"))
    world = World(by_seqs(table, dead), spec_with(launches=12), space)
    assert world.run().outcome is AdviceOutcome.RECOMMENDED


def test_a_launch_that_blocks_the_machine_ends_the_job_and_leaves_nothing_running() -> None:
    def tap(deed: str, detail: object) -> None:
        if deed == "launch" and isinstance(detail, Setting) and detail.get(SEQS) == 8:
            raise Blocked("process 7 cannot be ended")

    world = World(by_seqs({}), tap=tap)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.BLOCKED
    assert advice.reasons == ("process 7 cannot be ended",)
    assert [t.result.state for t in world.trials] == [TrialState.MEASURED, TrialState.FAILED]
    assert world.trials[-1].result.note == "process 7 cannot be ended"


def test_a_baseline_that_does_not_start_leaves_relative_targets_without_a_meaning() -> None:
    world = World(by_seqs({BASELINE: Dials(start=failure())}), spec_with("ttft:p95<=0.6x"))
    for _ in range(2):  # a resumed job says the same, and launches nothing more
        with pytest.raises(TargetError, match=r"not measured \(out of memory\)"):
            world.run()
        assert len(world.bench.launched) == 1


def test_a_baseline_without_a_finite_estimate_leaves_no_trial_running() -> None:
    world = World(by_seqs({BASELINE: Dials(failed_share=0.5)}), spec_with("ttft:p95<=0.6x"))
    with pytest.raises(TargetError, match="no finite ttft p95"):
        world.run()
    assert [t.result.state for t in world.trials] == [TrialState.FAILED]
    with pytest.raises(TargetError, match="no finite ttft p95"):
        world.run()
    assert len(world.bench.launched) == 1


def test_relative_targets_are_settled_by_the_baseline_once_for_the_whole_job() -> None:
    table = {BASELINE: Dials(1000, 10), 16: Dials(500, 10), 32: Dials(700, 10)}
    world = World(by_seqs(table), spec_with("ttft:p95<=0.6x", "errors<=2%"))
    advice = world.run()
    assert len(world.done("resolve")) == 1
    target = world.ledger.job(world.job.id).targets[0]
    assert target.asked == "ttft:p95<=0.6x"
    # the baseline's p95 lies just below its greatest, a tenth above 1000 ms
    assert target.limit == pytest.approx(0.6 * 1090, rel=0.01)
    assert world.ledger.job(world.job.id).spec.targets[0].is_relative
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    measured = world.of(Phase.SEARCH)[0].result.measurements[0]
    assert measured.judgements[0].target == target


TWO = Space(
    (Knob.of(SEQS, [8, 16]),),
    (Variant("bf16"), Variant("fp8", flags=(("quantization", "fp8"),))),
)


def by_precision(setting: Setting) -> Dials:
    return Dials(carries=3 if setting.variant == "fp8" else 1)


def test_a_change_of_precision_is_not_advised_unasked_and_that_is_said() -> None:
    world = World(by_precision, spec_with(launches=5), TWO)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert all(setting.get("quantization") is None for setting in world.bench.launched[5:])
    assert advice.reasons[-3] == (
        "Not eligible: 2 trials change the precision of weights or KV cache, and so the answers "
        "(best: trial 3, headroom >= 3). --accept-precision-change lets them be advised; check "
        "their quality first."
    )


def test_a_change_of_precision_is_advised_when_accepted_and_warned_of() -> None:
    world = World(by_precision, spec_with(launches=5, accept_precision_change=True), TWO)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert "--quantization (not set) -> fp8" in advice.diff
    assert any("the answers may change; check their quality" in r for r in advice.reasons)


def test_none_meets_is_not_said_of_a_setting_that_only_may_not_be_advised() -> None:
    def script(setting: Setting) -> Dials:
        return Dials(carries=3 if setting.variant == "fp8" else 0.5)

    advice = World(script, spec_with(launches=5), TWO).run()
    assert advice.outcome is AdviceOutcome.NONE_MEETS
    assert advice.reasons[0] == "Each setting that ran (3) provably misses a target at 1x the load"
    assert any(reason.startswith("Not eligible: 2 trials") for reason in advice.reasons)


def test_a_missing_metric_never_passes() -> None:
    """Answers of one token have no gap, so a target on gaps stays undecided."""
    world = World(by_seqs({}), spec_with("itl:p95<=50ms", "errors<=2%", launches=1))
    world.bench.tokens = 1
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert "ITL p95: no samples, so nothing is proven" in advice.reasons


def test_a_space_that_is_used_up_ends_the_search_and_repeats_nothing() -> None:
    world = World(by_seqs({}), spec_with(launches=50))
    advice = world.run()
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 32, 64]
    assert "The search ended because every setting of the Space was tried" in advice.reasons


def test_a_setting_that_keeps_failing_by_our_fault_is_launched_twice_at_most() -> None:
    world = World(by_seqs({8: Dials(start=OURS), 16: Dials(start=OURS)}), spec_with(launches=50))
    advice = world.run()
    assert seqs(world.of(Phase.SEARCH)) == [8, 8, 16, 16, 32, 64]
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT


def test_the_evidence_is_of_the_launch_that_was_measured_not_of_one_that_failed() -> None:
    failed_once: list[Setting] = []

    def script(setting: Setting) -> Dials:
        if setting.get(SEQS) != 8:
            return Dials()
        failed_once.append(setting)
        return Dials(carries=2, start=OURS if len(failed_once) == 1 else None)

    advice = World(script, spec_with(launches=6)).run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice is not None
    assert str(advice.choice.headroom) == "2 .. 2.21"


@pytest.mark.parametrize("objective", list(Objective))
def test_every_objective_is_to_be_raised(objective: Objective) -> None:
    """Of settings that all meet, the better one by any measure is the finalist."""
    table = {BASELINE: Dials(300, 30, carries=0.5), 32: Dials(100, 10, carries=2)}
    world = World(by_seqs(table, Dials(700, 35, carries=1)), spec_with(objective=objective))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice is not None
    if objective in (Objective.HEADROOM, Objective.LATENCY, Objective.COST):
        assert advice.choice.setting.get(SEQS) == 32


def test_flags_of_the_baseline_that_are_no_knob_are_fixed_for_every_launch() -> None:
    world = World(by_seqs({}), space=SPACE, fixed={"dtype": "bfloat16", SEQS: 100})
    world.run()
    assert all(setting.get("dtype") == "bfloat16" for setting in world.bench.launched)
    assert seqs(world.of(Phase.BASELINE)) == [100]


def test_the_baseline_is_compared_with_every_knob_as_the_server_resolved_it() -> None:
    world = World(by_seqs({}))
    advice = world.run()
    assert world.bench.launched[0].get(SEQS) is None
    assert seqs(world.of(Phase.BASELINE)) == [None]
    assert seqs(world.of(Phase.CONFIRM)) == [BASELINE] * 3
    assert advice.baseline is not None
    assert advice.baseline.setting.get(SEQS) == BASELINE
