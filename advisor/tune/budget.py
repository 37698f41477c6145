"""When the search ends: budgets are counted from the ledger, so across restarts."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.job import JobSpec, Trial
from advisor.terms.outcome import TrialState

#: Launches that fail in a row, none of them the setting's fault, before the job is blocked.
MOST_FAILURES_IN_A_ROW = 5


@dataclass(frozen=True, slots=True)
class Budget:
    """What a job may spend on its search."""

    spec: JobSpec

    def spent_launches(self, trials: Sequence[Trial]) -> int:
        """Finished search launches, the baseline's included; an interrupted one is run again."""
        return sum(trial.result.state is not TrialState.INTERRUPTED for trial in _search(trials))

    def why_stop(self, trials: Sequence[Trial]) -> str | None:
        """The reason to launch nothing more, or None."""
        spent = self.spent_launches(trials)
        if spent >= self.spec.launches:
            return f"The search ended after {spent} launches, its budget"
        # an interrupted launch took its time all the same
        elapsed_s = sum(trial.elapsed_s or 0.0 for trial in _search(trials))
        limit_s = self.spec.time_budget_s
        if limit_s is not None and elapsed_s >= limit_s:
            return f"The search ended after {elapsed_s:.0f} s, its time budget is {limit_s:.0f} s"
        return None


def _search(trials: Sequence[Trial]) -> list[Trial]:
    """The baseline's and the search's: a resumed job may have confirming ones already."""
    return [trial for trial in trials if not trial.phase.is_proof]


def failures_in_a_row(trials: Sequence[Trial]) -> int:
    """At the end of the list; an infeasible setting is an answer, not a failure."""
    count = 0
    for trial in reversed(trials):
        if trial.result.state is TrialState.INTERRUPTED:
            continue
        if trial.result.state is not TrialState.FAILED:
            break
        count += 1
    return count
