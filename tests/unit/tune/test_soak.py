"""Whole jobs whose best setting has to survive its longest requests, all at once."""

import pytest

from advisor.bench.soak import WINDOW, most_open
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Phase, Trial
from advisor.terms.outcome import Reason, ReplayOutcome, TrialState
from advisor.terms.setting import Setting
from tests.contract.scripted_bench import Dials, failure
from tests.unit.tune.jobs import BASELINE, SEQS, World, by_seqs, seqs, spec_with
from tests.unit.tune.test_restart import Killer, assert_same_end, run_to_the_end

DIED = failure(Reason.OOM_UNDER_LOAD, "CUDA out of memory")
DIES = Dials(carries=3, soak_crash=DIED)


def soaked(world: World) -> list[Trial]:
    return [trial for trial in world.trials if trial.result.soak is not None]


def confirmed(world: World) -> list[object]:
    """By round, who stood against the baseline."""
    rounds = {t.round: t.setting.get(SEQS) for t in world.of(Phase.CONFIRM)}
    others = {
        t.round: t.setting.get(SEQS)
        for t in world.of(Phase.CONFIRM)
        if t.setting.get(SEQS) != BASELINE
    }
    return [others.get(number) for number in sorted(rounds, key=lambda each: each or 0)]


def test_the_winner_is_soaked_at_the_end_of_its_last_launch() -> None:
    world = World(by_seqs({16: Dials(carries=2)}))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    (trial,) = soaked(world)
    ours = [t for t in world.of(Phase.CONFIRM) if t.setting.get(SEQS) == 16]
    assert trial.number == ours[-1].number
    assert trial.result.soak is not None
    assert trial.result.soak.survived
    *_, last = world.ledger.replays(world.job.id, trial.number)
    assert (last.outcome, last.plan.window) == (ReplayOutcome.SOAK, WINDOW)
    assert last.plan.multiple == 2.0
    assert "It survived " in " ".join(advice.reasons)


def test_as_many_at_once_as_any_window_of_the_round_brought() -> None:
    world = World(by_seqs({16: Dials(ttft_ms=900, carries=2)}))
    world.run()
    (trial,) = soaked(world)
    assert trial.result.soak is not None
    ours = [t.number for t in world.of(Phase.CONFIRM) if t.setting.get(SEQS) == 16]
    played = [each for number in ours for each in world.ledger.replays(world.job.id, number)]
    most = [most_open(each.traces) for each in played if each.outcome.is_scored]
    assert max(most) > 1
    assert trial.result.soak.requests == max(most)
    assert played[-1].plan.at_once == max(most)


def test_no_verdict_and_no_count_of_windows_takes_a_soak_for_one() -> None:
    world = World(by_seqs({16: Dials(carries=2, soak_failed_share=0.6)}))
    world.run()
    scored = world.ledger.scored(world.job.id)
    for trial in soaked(world):
        assert {each.window for each in scored[trial.number]}.isdisjoint({WINDOW.name})
        assert [m.replays for m in trial.result.measurements] == [1, 1]
        assert [m.error_rate for m in trial.result.measurements] == [0, 0]


def test_who_dies_is_passed_over_for_the_next_finalist() -> None:
    world = World(by_seqs({16: DIES, 32: Dials(carries=2)}))
    advice = world.run()
    assert confirmed(world) == [16, 32]
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice is not None
    assert advice.choice.setting.get(SEQS) == 32
    dead, alive = soaked(world)
    assert dead.result.state is TrialState.INFEASIBLE
    assert dead.result.failure == DIED
    assert [m.multiple for m in dead.result.measurements] == [1.0, 3.0]
    assert alive.result.state is TrialState.MEASURED
    assert any("oom_under_load: CUDA out of memory; it is not" in r for r in advice.reasons)


def test_who_dies_gets_no_second_chance() -> None:
    """The current setting, which was confirmed beside it, stays."""
    world = World(by_seqs({16: DIES}))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert any("did not survive" in reason for reason in advice.reasons)
    # nobody is left who could gain, and the current setting is proven already
    assert confirmed(world) == [16]


def test_without_a_proven_baseline_a_death_leaves_nothing_proven() -> None:
    world = World(by_seqs({BASELINE: Dials(carries=0.5), 16: DIES}, Dials(carries=0.0)))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0] == (
        "The best setting found does not survive the profile's longest requests at once"
    )
    assert confirmed(world) == [16]


def test_a_failed_request_is_enough() -> None:
    world = World(by_seqs({16: Dials(carries=2, soak_failed_share=0.6)}))
    assert world.run().outcome is AdviceOutcome.KEEP_CURRENT
    (trial,) = soaked(world)
    assert trial.result.state is TrialState.MEASURED
    assert trial.result.soak is not None
    assert "requests failed (http x" in trial.result.soak.trouble
    assert trial.result.note == f"all at once, {trial.result.soak.trouble}"


def test_a_hang_is_final_though_others_are_tried_again() -> None:
    """What would survive the second time was seen not to survive the first."""
    hangs = [Dials(carries=2, soak_crash=failure(Reason.HUNG, "no token for 120 s"))]
    launched: list[Setting] = []

    def script(setting: Setting) -> Dials:
        if setting.get(SEQS) != 16:
            return Dials()
        launched.append(setting)
        # the search's, then those of a round: it hangs in its last one
        return hangs[0] if len(launched) == 4 else Dials(carries=2)

    world = World(script)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert any("no token for 120 s; it is not recommended" in r for r in advice.reasons)
    (attempt,) = soaked(world)
    assert attempt.result.state is TrialState.FAILED
    assert confirmed(world) == [16]


def test_who_dies_on_its_windows_is_not_soaked() -> None:
    launched: list[Setting] = []

    def script(setting: Setting) -> Dials:
        if setting.get(SEQS) != 16:
            return Dials()
        launched.append(setting)
        return Dials(carries=2, crash_at_replay=None if len(launched) == 1 else 1)

    world = World(script)
    assert world.run().outcome is AdviceOutcome.KEEP_CURRENT
    assert len(launched) > 1
    assert soaked(world) == []


SCRIPT = by_seqs({8: DIES, 16: Dials(carries=2)})
SMALL = spec_with(launches=3, rounds=2, multiples=(1.0, 2.0))


@pytest.mark.parametrize("offset", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_in_the_confirmation_changes_nothing(offset: int) -> None:
    calm = World(SCRIPT, SMALL)
    expected = calm.run()
    assert confirmed(calm) == [8, 16]
    first = [deed for deed, _ in calm.deeds].index("spend")
    for number in range(first + offset, len(calm.deeds), 11 - 10 * offset):
        world = World(SCRIPT, SMALL, tap=Killer(number))
        assert_same_end(world, run_to_the_end(world), calm, expected)


def test_only_finalists_are_soaked() -> None:
    world = World(by_seqs({}))
    world.run()
    assert soaked(world) == []
    assert seqs(world.of(Phase.CONFIRM)) == [BASELINE] * 3
