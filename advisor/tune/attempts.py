"""Launches of one thing, tried again when what went wrong says nothing about the setting."""

import math
from collections.abc import Sequence

from advisor.terms.job import SMALLER_CHANGE, Phase, Trial
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting

#: A trial in any other state is launched again.
ENDED = (TrialState.MEASURED, TrialState.INFEASIBLE, TrialState.FAILED)


def over(trials: Sequence[Trial]) -> list[Trial]:
    """Without the interrupted ones: those are launched again."""
    return [trial for trial in trials if trial.result.state in ENDED]


def in_order_of_end(trials: Sequence[Trial]) -> list[Trial]:
    """Which is not that of their numbers where several ran side by side; last those that run."""
    return sorted(trials, key=_ended_s)


def _ended_s(trial: Trial) -> float:
    if trial.result.state is TrialState.RUNNING:
        return math.inf
    # without times, in the order they are in
    return -math.inf if trial.ended_s is None else trial.ended_s


def cut_off(trials: Sequence[Trial]) -> list[Trial]:
    """The search's launches that were interrupted and not launched again since, in order."""
    last = {trial.setting.key: trial for trial in trials if trial.phase is Phase.SEARCH}
    interrupted = [t for t in last.values() if t.result.state is TrialState.INTERRUPTED]
    return sorted(interrupted, key=lambda trial: trial.number)


def before_its_end(trials: Sequence[Trial]) -> list[Trial]:
    """The search's trials, the baseline's with them: not those that take back a change of its best
    setting, nor those that prove."""
    return [t for t in trials if not t.phase.is_proof and t.origin != SMALLER_CHANGE]


def is_settled(attempts: Sequence[Trial]) -> bool:
    """Whether the last of these launches of one thing, in their order, is the answer to it.

    A launch that failed for a transient reason is tried again as often as that reason's rule
    says, but not one that its soak ended: what a setting does not survive once is enough. A
    failure without a reason is a replay that was played three times already.
    """
    ended = over(attempts)
    if not ended:
        return False
    last = ended[-1].result
    if last.state is not TrialState.FAILED or last.failure is None:
        return True
    if last.soak is not None and not last.soak.survived:
        return True
    failed = sum(trial.result.state is TrialState.FAILED for trial in ended)
    return failed > last.failure.rule.retries


def answers(trials: Sequence[Trial]) -> list[Trial]:
    """Of each step the launch that settles it; one that was to be tried again counts nothing."""
    steps: dict[tuple[Phase, int | None, int | None, Setting], list[Trial]] = {}
    for trial in over(trials):
        if trial.phase.is_proof:
            step = (trial.phase, trial.round, trial.repeat, trial.setting)
            steps.setdefault(step, []).append(trial)
    settled = (attempts[-1] for attempts in steps.values() if is_settled(attempts))
    return sorted(settled, key=lambda trial: trial.number)
