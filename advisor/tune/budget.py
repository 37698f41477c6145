"""When the search ends: budgets are counted from the ledger, so across restarts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.job import JobSpec, Phase, Trial
from advisor.terms.outcome import TrialState
from advisor.tune.attempts import in_order_of_end

#: Launches that fail in a row, none of them the setting's fault, before the job is blocked.
MOST_FAILURES_IN_A_ROW = 5


@dataclass(frozen=True, slots=True)
class Budget:
    """What a job may spend on its search."""

    spec: JobSpec
    #: of one launch; None where there are none, and so no GPU-hours either
    gpus: int | None = None

    def spent_launches(self, trials: Sequence[Trial]) -> int:
        """Search launches, the baseline's and running ones included; an interrupted one is run
        again."""
        return sum(trial.result.state is not TrialState.INTERRUPTED for trial in _search(trials))

    def why_stop(self, trials: Sequence[Trial]) -> str | None:
        """The reason to launch nothing more, or None."""
        spent = self.spent_launches(trials)
        if spent >= self.spec.launches:
            return f"The search ended after {spent} launches, its budget"
        # an interrupted launch took its time all the same
        elapsed_s = busy_s(_search(trials))
        limit_s = self.spec.time_budget_s
        if limit_s is not None and elapsed_s >= limit_s:
            return f"The search ended after {elapsed_s:.0f} s, its time budget is {limit_s:.0f} s"
        spent_h, limit_h = gpu_hours(_search(trials), self.spec, self.gpus), self.spec.gpu_hours
        if limit_h is not None and spent_h is not None and spent_h >= limit_h:
            return (
                f"The search ended after {spent_h:.3g} GPU-hours, its budget is {limit_h:.3g} "
                "GPU-hours"
            )
        return None


def _search(trials: Sequence[Trial]) -> list[Trial]:
    """The baseline's and the search's: a resumed job may have confirming ones already."""
    return [trial for trial in trials if not trial.phase.is_proof]


def busy_s(trials: Sequence[Trial]) -> float:
    """Seconds in which at least one of these ran, given in the order of their numbers: time in
    which several did counts once."""
    total_s, until_s = 0.0, -math.inf
    for trial in trials:
        elapsed_s = trial.elapsed_s or 0.0  # of a running one nothing is counted yet
        if trial.ended_s is None:
            total_s += elapsed_s
            continue
        began_s = max(trial.ended_s - elapsed_s, until_s)
        total_s += max(trial.ended_s - began_s, 0.0)
        until_s = max(trial.ended_s, until_s)
    return total_s


def gpu_hours(trials: Sequence[Trial], spec: JobSpec, gpus: int | None) -> float | None:
    """Of these launches, each from its opening to its close; None without GPUs.

    `gpus` is of one launch. Beside a check of neighbours every other set was at work too.
    """
    if gpus is None:
        return None
    sets = len(spec.gpu_sets)
    shares = (
        # of a running one nothing is counted yet
        (trial.elapsed_s or 0.0) * (sets if trial.phase is Phase.NEIGHBOURS else 1)
        for trial in trials
    )
    return gpus * sum(shares) / 3600


def failures_in_a_row(trials: Sequence[Trial]) -> int:
    """At the end of those that have ended; an infeasible setting is an answer, not a failure."""
    count = 0
    for trial in reversed(in_order_of_end(trials)):
        if trial.result.state in (TrialState.INTERRUPTED, TrialState.RUNNING):
            continue
        if trial.result.state is not TrialState.FAILED:
            break
        count += 1
    return count
