"""Whether sets of GPUs disturb each other, and what follows."""

from collections.abc import Sequence

import pytest

from advisor.measure.curves import curves
from advisor.measure.measure import measure
from advisor.measure.scored import Scored
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Phase, Trial, TrialResult
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.tune.case import baseline_of
from advisor.tune.neighbours import why_alone
from tests.contract.scripted_bench import Dials, failure, traces
from tests.unit.tune.jobs import BASELINE, SEQS, TARGETS, WINDOWS, by_seqs, seqs, spec_with
from tests.unit.tune.sets import SPEC, Sets, disturbed, side_by_side, told
from tests.unit.tune.test_restart import Killed

ALONE = "The search ran on the first GPU set alone: "
MEASURED = TrialState.MEASURED


def test_the_baseline_is_launched_again_beside_the_same_load_on_every_other_set() -> None:
    world = Sets(by_seqs({}), spec_with(launches=4, gpus="0;1;2"))
    world.run()
    (check,) = world.of(Phase.NEIGHBOURS)
    assert (check.number, check.setting.get(SEQS)) == (1, BASELINE)
    assert [m.multiple for m in check.result.measurements] == [1.0]
    assert check.replays == 3
    assert world.of(Phase.SEARCH), "they were not seen to disturb each other"
    for bench in world.benches[1:]:
        assert bench.launched[0] == check.setting
        windows = [plan.window for setting, plan in bench.played if setting == check.setting]
        assert windows
        assert set(windows) <= set(WINDOWS.search)
    salts = [plan.salt for bench in world.benches for _, plan in bench.played]
    assert len(set(salts)) == len(salts)


def test_neighbours_carry_load_from_before_the_first_replay_to_after_the_last() -> None:
    world = Sets(by_seqs({}), SPEC)
    world.run()
    deeds = [deed for deed, _ in world.deeds]
    opened, closed = ([n for n, each in enumerate(deeds) if each == d] for d in ("open", "close"))
    check = deeds[opened[1] : closed[1]]
    first, last = check.index("record"), len(check) - check[::-1].index("record")
    assert check[:first].count("launch") == 2
    assert check[:last].count("end") == 0
    assert check.count("record") == 3, "only what is measured is kept"
    assert check[first:last].count("replay") > 2, "the other's among them"
    assert check[last:].count("end") == 2


def test_the_check_is_no_trial_of_the_search() -> None:
    world = Sets(by_seqs({16: Dials(carries=2)}), SPEC)
    advice = world.run()
    assert sorted(told(world)) == [8, 16, 32, 64, BASELINE]
    baseline = baseline_of(world.trials)
    assert baseline is not None
    assert baseline.number == 0
    assert advice.search_launches == 6
    assert not any(reason.startswith("The search ran") for reason in advice.reasons)


def test_where_neighbours_disturb_the_search_goes_on_on_the_first_set_and_says_so() -> None:
    world = disturbed(1.5)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert side_by_side(world) == set()
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 32, 64]
    assert len(world.benches[1].launched) == 1
    (why,) = [reason for reason in advice.reasons if reason.startswith(ALONE)]
    assert world.watch.noted == why
    assert why == (
        f"{ALONE}beside the others' load the current setting's TTFT p95 is 1.50 to 1.50 times as "
        "long over 3 windows"
    )


def test_a_disturbance_within_what_launches_differ_by_is_none() -> None:
    assert side_by_side_after(1.02)
    assert not side_by_side_after(1.2)


def side_by_side_after(times: float) -> bool:
    world = disturbed(times)
    world.run()
    return side_by_side(world) == {Phase.SEARCH}


def test_a_resumed_job_finds_the_check_and_its_answer_again() -> None:
    kill = [Killed("before the first ask")]

    def tap(deed: str, detail: object) -> None:
        if deed == "ask" and kill:
            raise kill.pop()

    world = disturbed(1.5, tap=tap)
    with pytest.raises(Killed):
        world.run()
    assert len(world.of(Phase.NEIGHBOURS)) == 1
    advice = world.run()
    assert len(world.of(Phase.NEIGHBOURS)) == 1
    assert side_by_side(world) == set()
    assert sum(reason.startswith(ALONE) for reason in advice.reasons) == 1


def test_a_neighbour_that_does_not_start_is_tried_again_and_then_done_without() -> None:
    taken = by_seqs({}, Dials(start=failure(Reason.PORT_TAKEN, "the port is taken")))
    world = Sets(by_seqs({16: Dials(carries=2)}), SPEC, elsewhere=taken)
    advice = world.run()
    states = [trial.result.state for trial in world.of(Phase.NEIGHBOURS)]
    assert states == [TrialState.FAILED] * 2
    assert side_by_side(world) == set()
    assert (
        f"{ALONE}the current setting was not measured beside the others' load (the port is taken)"
    ) in advice.reasons
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert not world.are_serving


def test_a_neighbour_that_ends_under_its_load_spoils_the_check() -> None:
    crash = Dials(crash_at_replay=0, crash=failure(Reason.CRASHED_UNDER_LOAD, "died"))
    world = Sets(by_seqs({}), SPEC, elsewhere=by_seqs({}, crash))
    advice = world.run()
    (check,) = world.of(Phase.NEIGHBOURS)
    assert check.result.failure == crash.crash
    assert any(reason.startswith(ALONE) and "(died)" in reason for reason in advice.reasons)


def test_what_cannot_be_measured_on_the_first_set_ends_the_load_on_the_others() -> None:
    launches: list[Setting] = []

    def script(setting: Setting) -> Dials:
        launches.append(setting)
        return Dials(start=failure(Reason.HUNG, "no token") if len(launches) in (2, 3) else None)

    world = Sets(script, SPEC, elsewhere=by_seqs({}))
    world.run()
    states = [trial.result.state for trial in world.of(Phase.NEIGHBOURS)]
    assert states == [TrialState.FAILED] * 2
    assert not world.are_serving


def test_without_launches_for_two_more_nothing_is_checked() -> None:
    world = Sets(by_seqs({}), spec_with(launches=3, gpus="0;1"))
    advice = world.run()
    assert world.of(Phase.NEIGHBOURS) == []
    assert len(world.of(Phase.SEARCH)) == 2
    assert side_by_side(world) == set()
    assert (
        f"{ALONE}its budget left no launch to see whether sets disturb each other"
        in advice.reasons
    )


def test_without_a_measured_baseline_nothing_is_checked() -> None:
    world = Sets(by_seqs({BASELINE: Dials(start=failure()), 8: Dials(carries=2)}), SPEC)
    advice = world.run()
    assert world.of(Phase.NEIGHBOURS) == []
    assert side_by_side(world) == set()
    assert any(r.startswith(f"{ALONE}without a measured baseline") for r in advice.reasons)


def judged(alone: Dials, beside: Dials, windows: int = 3) -> str | None:
    """What is said of the baseline's own launch and the one beside neighbours."""
    setting, played = Setting.of("m", {}), [_replays(each, windows) for each in (alone, beside)]
    phases = (Phase.BASELINE, Phase.NEIGHBOURS)
    trials = [
        Trial(number, phase, setting, "", _result(replays))
        for number, (phase, replays) in enumerate(zip(phases, played, strict=True))
    ]
    return why_alone(trials, dict(enumerate(played)), TARGETS, SPEC)


def _replays(dials: Dials, windows: int) -> list[Scored]:
    return [
        Scored(window.name, 1.0, curves(traces(dials, Plan(window, 1.0, 0, 0))))
        for window in WINDOWS.search[:windows]
    ]


def _result(replays: Sequence[Scored]) -> TrialResult:
    measured = measure([each.curves for each in replays], TARGETS, 1.0, 0.95)
    return TrialResult(MEASURED, measurements=(measured,))


def test_every_target_that_is_worse_is_named() -> None:
    assert judged(Dials(), Dials()) is None
    assert judged(Dials(200, 20), Dials()) is None
    said = judged(Dials(100, 10), Dials(150, 20))
    assert said is not None
    assert "TTFT p95 is 1.50 to 1.50 times" in said
    assert "ITL p95 is 2.00 to 2.00 times" in said


@pytest.mark.parametrize(("times", "worse"), [(1.05, False), (1.2, True)])
def test_with_too_few_windows_the_bare_ratio_decides(times: float, worse: bool) -> None:
    said = judged(Dials(100), Dials(100 * times), windows=2)
    assert (said is not None) == worse
    if said is not None:
        assert said.endswith("TTFT p95 is 1.20 times as long")


def test_requests_that_fail_beside_neighbours_only_are_told() -> None:
    said = judged(Dials(), Dials(failed_share=0.5))
    assert said is not None
    assert "TTFT p95 has no ratio to what it is alone" in said
    assert "errors<=2% is missed, and is not when it is alone" in said
    assert judged(Dials(failed_share=0.5), Dials(failed_share=0.5)) is None
