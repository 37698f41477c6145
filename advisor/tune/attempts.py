"""Launches of one thing, tried again when what went wrong says nothing about the setting."""

from collections.abc import Sequence

from advisor.terms.job import Trial
from advisor.terms.outcome import TrialState

#: A trial in any other state is launched again.
ENDED = (TrialState.MEASURED, TrialState.INFEASIBLE, TrialState.FAILED)


def over(trials: Sequence[Trial]) -> list[Trial]:
    """Without the interrupted ones: those are launched again."""
    return [trial for trial in trials if trial.result.state in ENDED]


def is_settled(attempts: Sequence[Trial]) -> bool:
    """Whether the last of these launches of one thing, in their order, is the answer to it.

    A launch that failed for a transient reason is tried again as often as that reason's rule
    says. A failure without a reason is a replay that was played three times already.
    """
    ended = over(attempts)
    if not ended:
        return False
    last = ended[-1].result
    if last.state is not TrialState.FAILED or last.failure is None:
        return True
    failed = sum(trial.result.state is TrialState.FAILED for trial in ended)
    return failed > last.failure.rule.retries
