"""What follows from a reason: launched again, told to the search, or the end of the job."""

import pytest

from advisor.terms.advice import AdviceOutcome
from advisor.terms.errors import Blocked
from advisor.terms.job import Phase, Trial, TrialResult
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.reasons import RULES, Effect
from advisor.terms.setting import Setting
from advisor.tune.attempts import is_settled
from tests.contract.scripted_bench import Dials, failure
from tests.unit.tune.jobs import BASELINE, SEQS, World, by_seqs, seqs, spec_with

TRANSIENT = [r for r, rule in RULES.items() if rule.effect is Effect.FAILED and rule.retries]
FINAL = [r for r, rule in RULES.items() if rule.effect is Effect.INFEASIBLE]
BLOCKING = [r for r, rule in RULES.items() if rule.effect is Effect.BLOCKS]
BARE = spec_with(launches=3, rounds=1, multiples=(1.0,))


class FailsAt:
    """Launches with these numbers, from 0, do not come up."""

    def __init__(self, *numbers: int, reason: Reason = Reason.PORT_TAKEN) -> None:
        self._numbers, self._reason, self._count = numbers, reason, -1

    def __call__(self, setting: Setting) -> Dials:
        self._count += 1
        failed = failure(self._reason, "no") if self._count in self._numbers else None
        slow = setting.get(SEQS) in (None, BASELINE)
        return Dials(carries=0.5 if slow else 2.0, start=failed)


@pytest.mark.parametrize("reason", TRANSIENT)
def test_the_baseline_is_launched_again(reason: Reason) -> None:
    world = World(FailsAt(0, reason=reason), BARE)
    advice = world.run()
    assert [t.result.state for t in world.of(Phase.BASELINE)] == ["failed", "measured"]
    assert [t.origin for t in world.of(Phase.BASELINE)] == ["baseline", "baseline, retry"]
    assert advice.baseline is not None
    assert advice.baseline.measurement is not None
    # both were launches, so the budget of three leaves one for the search
    assert len(world.of(Phase.SEARCH)) == 1
    assert advice.search_launches == 3
    assert "The search ended after 3 launches, its budget" in advice.reasons


def test_the_baseline_is_not_launched_beyond_its_limit_nor_beyond_the_budget() -> None:
    world = World(FailsAt(0, 1), BARE)
    world.run()
    assert [t.result.state for t in world.of(Phase.BASELINE)] == ["failed", "failed"]
    assert len(world.of(Phase.SEARCH)) == 1
    world = World(FailsAt(0), spec_with(launches=1, rounds=1))
    world.run()
    assert len(world.of(Phase.BASELINE)) == 1


@pytest.mark.parametrize("reason", FINAL)
def test_a_setting_that_cannot_run_is_launched_once(reason: Reason) -> None:
    world = World(FailsAt(0, reason=reason), BARE)
    world.run()
    (trial,) = world.of(Phase.BASELINE)
    assert trial.result.state is TrialState.INFEASIBLE


@pytest.mark.parametrize("again", [0, 1])
def test_a_confirming_launch_is_launched_again_on_its_window(again: int) -> None:
    """Which then stands for the step: the round is complete and its claim is made."""
    calm = World(FailsAt(), BARE)
    expected = calm.run()
    assert expected.outcome is AdviceOutcome.RECOMMENDED
    world = World(FailsAt(3 + again), BARE)
    advice = world.run()
    confirming = world.of(Phase.CONFIRM)
    assert len(confirming) == 7
    assert confirming[again].result.state is TrialState.FAILED
    assert confirming[again].setting == confirming[again + 1].setting
    assert confirming[again].repeat == confirming[again + 1].repeat
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice == expected.choice
    assert len(world.done("spend")) == len(calm.done("spend")) == 3


def test_a_confirming_launch_that_fails_twice_leaves_its_arm_unproven() -> None:
    world = World(FailsAt(4, 5), BARE)
    assert world.run().outcome is AdviceOutcome.NOT_PROVEN
    assert len(world.of(Phase.CONFIRM)) == 7


@pytest.mark.parametrize("reason", BLOCKING)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_broken_machine_ends_the_job(reason: Reason, at: int) -> None:
    world = World(FailsAt(at, reason=reason), BARE)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.BLOCKED
    assert advice.reasons[0] == f"{reason}: no"
    last = world.trials[-1].result
    assert (last.state, last.failure) == (TrialState.FAILED, failure(reason, "no"))
    assert len(world.bench.launched) == at + 1


def test_a_machine_that_breaks_when_a_server_ends_has_its_reason_on_the_trial() -> None:
    stuck = failure(Reason.NOT_RELEASED, "process 7 outlives SIGKILL")

    def tap(deed: str, detail: object) -> None:
        if deed == "end":
            raise Blocked("not_released: process 7 outlives SIGKILL", stuck)

    world = World(by_seqs({}), BARE, tap=tap)
    assert world.run().outcome is AdviceOutcome.BLOCKED
    assert world.trials[0].result.failure == stuck


def test_whether_it_is_settled() -> None:
    def trial(state: TrialState, reason: Reason | None = None) -> Trial:
        result = TrialResult(state, None if reason is None else failure(reason))
        return Trial(0, Phase.BASELINE, Setting.of("m", {}), "baseline", result)

    failed = trial(TrialState.FAILED, Reason.HUNG)
    assert not is_settled([])
    assert not is_settled([trial(TrialState.INTERRUPTED)])
    assert not is_settled([failed])
    assert not is_settled([failed, trial(TrialState.INTERRUPTED)])
    assert is_settled([failed, failed])
    assert is_settled([failed, trial(TrialState.MEASURED)])
    assert is_settled([trial(TrialState.FAILED)]), "replays were played again already"
    assert is_settled([trial(TrialState.FAILED, Reason.MODEL_UNAVAILABLE)])


def test_the_search_launches_a_setting_again_as_often_as_the_reason_says() -> None:
    gone = failure(Reason.MODEL_UNAVAILABLE, "no such repository")
    table = {8: Dials(start=gone), 16: Dials(start=failure(Reason.HUNG, "no token"))}
    world = World(by_seqs(table), spec_with(launches=50))
    world.run()
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 16, 32, 64]
