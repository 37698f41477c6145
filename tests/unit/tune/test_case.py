"""Other targets, the same replays."""

from dataclasses import replace

import pytest

from advisor.advice.advise import advise
from advisor.measure.curves import Curves, curves
from advisor.terms.advice import AdviceOutcome
from advisor.terms.calibration import Calibration, Rehearsed, Rung
from advisor.terms.errors import TargetError
from advisor.terms.job import Objective, Phase, Trial
from advisor.terms.measurement import Measurement
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Verdict, parse_target
from advisor.tune.attempts import over
from advisor.tune.case import baseline_of, case_of, judged_again, searched, to_beat
from advisor.tune.resolve import resolve_targets
from tests.contract.scripted_bench import Dials, traces
from tests.unit.advice import examples
from tests.unit.advice.examples import MET, MISSED, SPEC, measurement
from tests.unit.tune.jobs import BASELINE, SEQS, TARGETS, WINDOWS, World, by_seqs, spec_with

TABLE = {BASELINE: Dials(600, 30), 16: Dials(200, 10, carries=2)}


def what_if(world: World, *texts: str) -> tuple[list[Trial], AdviceOutcome]:
    targets = [parse_target(text) for text in texts]
    scored = world.ledger.scored(world.job.id)
    job, trials = judged_again(world.ledger.job(world.job.id), world.trials, scored, targets)
    return trials, advise(case_of(job, trials, scored)).outcome


@pytest.fixture(name="world", scope="module")
def _world() -> World:
    world = World(by_seqs(TABLE, Dials(900, 40)))
    assert world.run().outcome is AdviceOutcome.RECOMMENDED
    return world


def test_the_same_targets_give_the_same_trials_and_advice(world: World) -> None:
    trials, outcome = what_if(world, *map(str, TARGETS))
    assert trials == world.trials
    assert outcome is AdviceOutcome.RECOMMENDED


def test_tighter_targets_change_the_verdicts_and_launch_nothing(world: World) -> None:
    launched = len(world.bench.launched)
    trials, outcome = what_if(world, "ttft:p95<=100ms", "errors<=2%")
    assert outcome is AdviceOutcome.NONE_MEETS
    headrooms = [str(t.result.headroom) for t in trials if t.phase is not Phase.CONFIRM]
    assert headrooms == ["< 1"] * 4
    assert len(world.bench.launched) == launched


def test_what_if_judges_with_the_jobs_calibration(world: World) -> None:
    rung = Rung(1.0, 1000.0, 10.0, 1000.0)  # out of reach for windows this short
    found = Calibration("m", "paper", 20, (Rehearsed(Metric.TTFT, 95.0, 0.99, 0.99, (rung,)),))
    job = world.ledger.job(world.job.id)
    job = replace(job, spec=replace(job.spec, calibration=found))
    scored = world.ledger.scored(world.job.id)
    loose = (parse_target("ttft:p95<=100s"),)
    for trial in judged_again(job, world.trials, scored, loose)[1]:
        assert {m.verdict for m in trial.result.measurements} <= {Verdict.UNDECIDED}


def test_a_target_between_the_two_proves_the_gain_at_the_load(world: World) -> None:
    _, outcome = what_if(world, "ttft:p95<=400ms", "errors<=2%")
    assert outcome is AdviceOutcome.RECOMMENDED


def test_a_multiple_that_was_cut_short_is_left_out(world: World) -> None:
    job, scored = world.ledger.job(world.job.id), dict(world.ledger.scored(world.job.id))
    trial = next(t for t in world.trials if t.setting.get(SEQS) == 16)
    cut = [one for one in scored[trial.number] if one.multiple != 2.0]
    cut += [one for one in scored[trial.number] if one.multiple == 2.0][:1]
    again = judged_again(job, world.trials, {**scored, trial.number: cut}, TARGETS)[1]
    kept = [m.multiple for m in again[trial.number].result.measurements]
    assert kept == [m.multiple for m in trial.result.measurements if m.multiple != 2.0]


def test_what_was_stopped_early_is_missed_and_shows_what_it_saw(world: World) -> None:
    stopped = [m for t in world.trials for m in t.result.measurements if m.stopped]
    assert stopped
    assert {m.verdict for m in stopped} == {Verdict.MISSED}
    assert {m.replays for m in stopped} <= {1, 2}
    assert all(j.verdict is not Verdict.MET for m in stopped for j in m.judgements)


def test_what_is_over_and_what_was_searched(world: World) -> None:
    assert over(world.trials) == world.trials
    found = searched(world.trials)
    assert [t.phase for t in found] == [Phase.BASELINE] + [Phase.SEARCH] * 3
    assert found[0].setting.get(SEQS) == BASELINE
    assert baseline_of([]) is None
    assert searched(world.trials[1:]) == found[1:]


def test_a_job_of_which_nothing_has_ended_has_a_case() -> None:
    world = World(by_seqs({}), spec_with(launches=1))
    found = case_of(world.job, [], {})
    assert (found.baseline, found.rounds, found.replays) == (None, (), 0)


def played(dials: Dials) -> list[Curves]:
    plans = [Plan(window, 1.0, 1, 0) for window in WINDOWS.search]
    return [curves(traces(dials, plan)) for plan in plans]


def test_relative_limits_are_taken_from_the_pooled_percentile() -> None:
    asked = (parse_target("ttft:p50<=0.5x"), TARGETS[1])
    resolved = resolve_targets(asked, played(Dials(1000)))
    assert resolved[0].limit == pytest.approx(500, rel=0.01)
    assert resolved[0].asked == "ttft:p50<=0.5x"
    assert resolved[1] is TARGETS[1]
    assert resolve_targets(resolved, []) == resolved


@pytest.mark.parametrize("target", ["ttft:p95<=0.5x", "itl:p95<=0.5x"])
def test_a_baseline_that_fails_too_often_gives_nothing_to_multiply(target: str) -> None:
    asked: tuple[Target, ...] = (parse_target(target),)
    failing = played(Dials(failed_share=0.2))
    with pytest.raises(TargetError, match="no finite"):
        resolve_targets(asked, failing)


OTHER = examples.setting(64)


def carrying(multiple: float) -> list[Measurement]:
    """Met there, missed at the next."""
    points = {1.0: MET, multiple: MET, 2 * multiple: MISSED}
    return [measurement(verdict, at) for at, verdict in sorted(points.items())]


@pytest.mark.parametrize(
    ("baseline", "others", "rounds", "beaten"),
    [
        (1.0, [], 2, 1.0),
        # any setting that beats the baseline would be one of two finalists
        (1.0, [2.0], 2, 1.0),
        (1.0, [2.0, 1.5, 3.0], 2, 2.0),
        (1.0, [2.0, 1.5, 3.0], 1, 3.0),
        (4.0, [2.0, 1.5, 3.0], 2, 4.0),
    ],
)
def test_what_a_setting_must_carry_to_be_confirmed(
    baseline: float, others: list[float], rounds: int, beaten: float
) -> None:
    trials = [examples.baseline(*carrying(baseline))]
    trials += [examples.trial(n, *carrying(multiple)) for n, multiple in enumerate(others, 1)]
    assert to_beat(trials, replace(SPEC, rounds=rounds), OTHER) == beaten


def test_what_may_not_be_advised_is_not_to_be_beaten() -> None:
    other = examples.setting(8, quantization="fp8")
    trials = [examples.baseline(*carrying(1.0)), examples.trial(1, *carrying(4.0), of=other)]
    assert to_beat(trials, replace(SPEC, rounds=1), OTHER) == 1.0
    accepting = replace(SPEC, rounds=1, accept_precision_change=True)
    assert to_beat(trials, accepting, OTHER) == 4.0


def on_gpus(size: int) -> Setting:
    return Setting.of("m", {"tensor_parallel_size": size})


def test_for_cost_as_much_is_to_be_carried_on_each_gpu() -> None:
    current = replace(examples.baseline(*carrying(2.0)), setting=on_gpus(2))
    trials = [current, examples.trial(1, *carrying(1.5), of=on_gpus(1))]
    cost = replace(SPEC, rounds=1, objective=Objective.COST)
    assert [to_beat(trials, cost, on_gpus(size)) for size in (1, 2, 4)] == [1.5, 3.0, 6.0]
    assert to_beat(trials, replace(SPEC, rounds=1), on_gpus(1)) == 2.0


def test_where_nothing_carried_anything_nothing_is_to_be_beaten() -> None:
    assert to_beat([], SPEC, OTHER) is None
    assert to_beat([examples.baseline(measurement(MISSED))], SPEC, OTHER) is None


def test_what_ran_beside_loaded_neighbours_explains_nothing(world: World) -> None:
    scored = world.ledger.scored(world.job.id)
    served = case_of(world.job, world.trials, scored).background.served
    for phase in (Phase.NEIGHBOURS, Phase.CONTROL):
        changed = [
            replace(trial, phase=phase) if trial.phase is Phase.CONFIRM else trial
            for trial in world.trials
        ]
        found = case_of(world.job, changed, scored).background.served
        assert 0 < len(found) < len(served)


def test_what_explains_a_case_has_every_scored_replay_with_its_setting(world: World) -> None:
    job, scored = world.ledger.job(world.job.id), world.ledger.scored(world.job.id)
    ranges = ((SEQS, (8, 16)),)
    background = case_of(job, world.trials, scored, ranges=ranges).background
    assert background.ranges == ranges
    assert len(background.served) == sum(map(len, scored.values()))
    # the baseline runs with a value that it does not name, in the search and in the confirmation
    current = baseline_of(world.trials)
    assert current is not None
    windows = [each.window for each in background.of(current.setting, 1.0)]
    assert len(windows) == len(set(windows)) >= 6
    stopped = [one for replays in scored.values() for one in replays if one.curves.stopped]
    assert len([each for each in background.served if not each.whole]) == len(stopped) > 0
