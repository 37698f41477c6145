"""Bounds on a share when the samples are not independent.

One stalled step delays every stream at once and a queue carries its wait forward, so the units
are blocks of time, not samples. The method is Korn and Graubard's ("Confidence intervals for
proportions with small expected number of positive counts estimated from survey data", Survey
Methodology 24, 1998): the linearised variance of the ratio over blocks gives a design effect,
that an effective sample size, and Clopper and Pearson's exact bound (Biometrika 26, 1934) is
taken at that size. Neighbouring blocks of one replay are correlated, so their lag-1 covariance
is added (Newey and West, Econometrica 55, 1987).
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from advisor.terms.traces import Int64

#: Degrees of freedom per block. Textbooks give 1; but neighbouring blocks are correlated, and a
#: replay that happens to miss the bursts underrates both the share and its variance. A half took
#: one to two points off the false claims in simulated queues.
FREEDOM = 0.5


class ShareBounds(NamedTuple):
    """A share with its one-sided bounds, all 0..1."""

    share: float
    lower: float
    upper: float


def share_bounds(over: Int64, total: Int64, confidence: float, deff: float) -> ShareBounds:
    """Bounds on a share from int64[B] blocks, each one-sided at `confidence` (0.5..1).

    `deff` is the design effect, see `design_effect`; under 1 it counts as 1, since no sample is
    worth more than itself. Raises ValueError without samples.
    """
    _check(over, total)
    n, blocks = int(total.sum()), int((total > 0).sum())
    size = effective_size(n, blocks, confidence, deff)
    return bounds_at(int(over.sum()) / n, size, confidence)


def bounds_at(share: float, size: float, confidence: float) -> ShareBounds:
    """Clopper and Pearson's bounds for a share seen in so many effective samples."""
    if size == 0:
        return ShareBounds(share, 0.0, 1.0)
    k = share * size
    return ShareBounds(share, _lower(k, size, confidence), _upper(k, size, confidence))


def upper_is_within(share: float, size: float, confidence: float, allowed: float) -> bool:
    """Whether the upper bound of `bounds_at` is at most `allowed` (above 0, below 1).

    The distribution is evaluated where the bound needs it inverted, which takes several times as
    long; whoever looks for the last share within a limit asks this a dozen times.
    """
    k = share * size
    return k < size and bool(special.betainc(k + 1, size - k, allowed) >= confidence)


def lower_is_within(share: float, size: float, confidence: float, allowed: float) -> bool:
    """Whether the lower bound of `bounds_at` is at most `allowed`, see `upper_is_within`."""
    k = share * size
    return k <= 0 or bool(special.betainc(k, size - k + 1, allowed) >= 1 - confidence)


def effective_size(n: int, blocks: int, confidence: float, deff: float) -> float:
    """How many independent samples n of them in so many non-empty blocks are worth.

    n / deff, reduced once more because the design effect itself is an estimate (Korn and
    Graubard's t adjustment). 0 for a single block, which tells nothing of how blocks differ.
    Raises ValueError for a confidence outside 0.5..1.
    """
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence {confidence} must be above 0.5 and below 1")
    if blocks < 2:
        return 0.0
    independent = float(special.stdtrit(n - 1, confidence))
    clustered = float(special.stdtrit((blocks - 1) * FREEDOM, confidence))
    return n / max(deff, 1.0) * (independent / clustered) ** 2


def _lower(k: float, size: float, confidence: float) -> float:
    return 0.0 if k <= 0 else float(special.betaincinv(k, size - k + 1, 1 - confidence))


def _upper(k: float, size: float, confidence: float) -> float:
    return 1.0 if k >= size else float(special.betaincinv(k + 1, size - k, confidence))


def design_effect(over: Int64, total: Int64, replay: Int64) -> float:
    """How many times larger the share's variance is than independent samples' would be.

    int64[B] each: samples over the limit, samples, and the replay that the block belongs to;
    blocks of one replay stand in order of time. 1 when the share is 0 or 1: such a sample says
    nothing of how exceedances cluster. Raises ValueError without samples.
    """
    _check(over, total)
    kept = total > 0
    over, total, replay = over[kept], total[kept], replay[kept]
    n, blocks = int(total.sum()), len(total)
    share = over.sum() / n
    if blocks < 2 or share in (0.0, 1.0):
        return 1.0
    residual = over - share * total
    neighbours = replay[1:] == replay[:-1]
    covariance = float((residual[1:] * residual[:-1])[neighbours].sum())
    # twice the lag-1 covariance at Bartlett's weight of a half; a negative one earns nothing
    spread = float((residual**2).sum()) + max(covariance, 0.0)
    variance = blocks / (blocks - 1) * spread / n**2
    return max(float(variance / (share * (1 - share) / n)), 1.0)


def _check(over: Int64, total: Int64) -> None:
    if np.any(over < 0) or np.any(over > total):
        raise ValueError("a block has fewer than no, or more than all, of its samples over")
    if total.sum() == 0:
        raise ValueError("no samples")
