"""When a search ends."""

from dataclasses import replace

from advisor.terms.job import Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.tune.budget import Budget, busy_s, failures_in_a_row, gpu_hours
from tests.unit.tune.jobs import SPEC

MEASURED, INFEASIBLE = TrialState.MEASURED, TrialState.INFEASIBLE
FAILED, INTERRUPTED = TrialState.FAILED, TrialState.INTERRUPTED


def trials(*states: TrialState, phase: Phase = Phase.SEARCH, each_s: float = 10.0) -> list[Trial]:
    setting = Setting.of("m", {})
    return [
        Trial(n, phase, setting, "", TrialResult(state), elapsed_s=each_s)
        for n, state in enumerate(states)
    ]


def test_launches_are_the_baseline_and_the_search_that_ended() -> None:
    budget = Budget(replace(SPEC, launches=4))
    done = [
        *trials(MEASURED, phase=Phase.BASELINE),
        *trials(MEASURED, INFEASIBLE, INTERRUPTED),
        *trials(MEASURED, MEASURED, phase=Phase.CONFIRM),
    ]
    assert budget.spent_launches(done) == 3
    assert budget.why_stop(done) is None
    assert budget.why_stop([*done, *trials(FAILED)]) == (
        "The search ended after 4 launches, its budget"
    )


def test_time_is_that_of_the_search_interrupted_launches_included() -> None:
    budget = Budget(replace(SPEC, launches=99, time_budget_s=30.0))
    done = trials(MEASURED, INTERRUPTED)
    assert budget.why_stop(done) is None
    assert budget.why_stop([*done, *trials(MEASURED, phase=Phase.CONFIRM)]) is None
    assert budget.why_stop([*done, *trials(MEASURED)]) == (
        "The search ended after 30 s, its time budget is 30 s"
    )


def test_without_a_time_budget_time_does_not_matter() -> None:
    budget = Budget(replace(SPEC, launches=99))
    assert budget.why_stop(trials(MEASURED, each_s=1e9)) is None


def test_failures_are_counted_from_the_end() -> None:
    assert failures_in_a_row([]) == 0
    assert failures_in_a_row(trials(FAILED, FAILED, MEASURED)) == 0
    assert failures_in_a_row(trials(FAILED, MEASURED, FAILED, FAILED)) == 2
    assert failures_in_a_row(trials(FAILED, INFEASIBLE, FAILED)) == 1
    # what was interrupted says nothing either way
    assert failures_in_a_row(trials(FAILED, INTERRUPTED, FAILED, INTERRUPTED)) == 2


def spans(*begun_and_ended: tuple[float, float], phase: Phase = Phase.SEARCH) -> list[Trial]:
    setting = Setting.of("m", {})
    return [
        Trial(n, phase, setting, "", TrialResult(MEASURED), elapsed_s=end - begin, ended_s=end)
        for n, (begin, end) in enumerate(begun_and_ended)
    ]


def test_time_that_trials_shared_counts_once() -> None:
    assert busy_s(spans((0, 10), (10, 15))) == 15
    assert busy_s(spans((0, 10), (2, 6), (8, 20), (30, 31))) == 21
    assert busy_s(spans((5, 10), (5, 10))) == 5
    assert busy_s([]) == 0
    budget = Budget(replace(SPEC, launches=99, time_budget_s=12.0))
    assert budget.why_stop(spans((0, 10), (1, 11))) is None
    assert budget.why_stop(spans((0, 10), (2, 12))) is not None


def test_running_launches_are_counted_and_their_time_is_not_known_yet() -> None:
    budget = Budget(replace(SPEC, launches=2, time_budget_s=5.0))
    setting = Setting.of("m", {})
    running = Trial(1, Phase.SEARCH, setting, "", TrialResult(TrialState.RUNNING))
    assert budget.spent_launches([*spans((0, 1)), running]) == 2
    assert busy_s([*spans((0, 1)), running]) == 1


def test_gpu_hours_are_those_of_every_gpu_of_every_launch() -> None:
    sets = replace(SPEC, gpus="0,1;2,3;4,5")
    half = (0.0, 1800.0)
    assert gpu_hours(spans(half, half), SPEC, 1) == 1
    assert gpu_hours(spans(half, half), sets, 2) == 2
    assert gpu_hours(spans(half, phase=Phase.NEIGHBOURS), sets, 2) == 3
    assert gpu_hours(spans(half), SPEC, None) is None


def test_the_search_ends_after_its_gpu_hours() -> None:
    budget = Budget(replace(SPEC, launches=99, gpu_hours=2.0), gpus=2)
    hour = (0.0, 1800.0)
    confirming = spans(hour, hour, phase=Phase.CONFIRM)
    assert budget.why_stop([*spans(hour), *confirming]) is None
    assert budget.why_stop(spans(hour, hour)) == (
        "The search ended after 2 GPU-hours, its budget is 2 GPU-hours"
    )
    assert Budget(replace(SPEC, launches=99), gpus=2).why_stop(spans(hour, hour)) is None


def test_failures_are_counted_in_the_order_of_their_ends() -> None:
    setting = Setting.of("m", {})

    def ended(number: int, state: TrialState, ended_s: float) -> Trial:
        return Trial(number, Phase.SEARCH, setting, "", TrialResult(state), ended_s=ended_s)

    running = Trial(4, Phase.SEARCH, setting, "", TrialResult(TrialState.RUNNING))
    found = [ended(0, MEASURED, 9), ended(1, FAILED, 1), ended(2, FAILED, 2), running]
    assert failures_in_a_row(found) == 0
    assert failures_in_a_row([*found, ended(5, FAILED, 10)]) == 1
