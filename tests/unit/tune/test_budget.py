"""When a search ends."""

from dataclasses import replace

from advisor.terms.job import Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.tune.budget import Budget, failures_in_a_row
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
