"""What the sampler is told of a trial: a score to raise, and one constraint per target."""

import math
from collections.abc import Callable, Sequence

from advisor.terms.job import TrialResult
from advisor.terms.measurement import Judgement

#: A target missed by ten times its limit is as bad as any worse miss; keeps infinities out.
WORST_EXCESS = 10.0

Score = Callable[[TrialResult], float | None]
Constraints = Callable[[TrialResult], Sequence[float]]


def headroom_estimate(result: TrialResult) -> float | None:
    """The point estimate of the largest load multiple that meets every target; None unknown."""
    return None if result.headroom is None else result.headroom.estimate


def excess(judgement: Judgement) -> float:
    """How far over its limit a target is: estimate / limit - 1, 0 or less when it is met.

    Without an estimate, +inf: what was not measured meets nothing. At a limit of 0 any estimate
    above it is +inf.
    """
    target = judgement.target
    if judgement.estimate is None:
        return math.inf
    limit = target.limit if target.percentile is None else target.limit_ns / 1e6
    if limit == 0:
        return math.inf if judgement.estimate > 0 else 0.0
    return judgement.estimate / limit - 1


def excesses_at(multiple: float, targets: int) -> Constraints:
    """One excess per target at this load multiple; +inf for each when nothing was measured."""

    def constraints(result: TrialResult) -> Sequence[float]:
        measured = result.at(multiple)
        if measured is None:
            return [math.inf] * targets
        return [excess(judgement) for judgement in measured.judgements]

    return constraints


def bounded(value: float) -> float:
    """As Optuna can take it: within +-WORST_EXCESS, and not-a-number is a miss, never a pass."""
    if math.isnan(value):
        return WORST_EXCESS
    return min(max(value, -WORST_EXCESS), WORST_EXCESS)
