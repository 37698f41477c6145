"""The test on a latency's tail: how much of it may lie over a limit, and for which limits.

The percentile's bounds are the share test turned round (Woodruff, Journal of the American
Statistical Association 47, 1952): the limits at which the verdict changes.

How strongly exceedances cluster is taken from the sample's own quantiles, never at the limit that
is judged, where there may be none to look at. It depends on the limit only by how far out that
lies, in three steps that can only fall, so that a looser limit never fares worse than a tighter
one. The steps were set in simulated queues with bursts, long prompts and stalls, 3 windows of 100
or 300 requests each, at a nominal 95 %. The upper bound of TTFT p95 and ITL p99 lay at or above
the true percentile in 96-99 % of replays at light to medium load, in 86-99 % near saturation, and
in 68-96 % where bursts come so rarely that a window holds one or none: no bound can know of a
burst that it never saw.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from advisor.measure.bounds import ShareBounds, bounds_at, design_effect, effective_size
from advisor.measure.curves import Pool
from advisor.measure.definitions import Float64
from advisor.terms.target import Verdict

#: The design effect is taken where these multiples of the allowed share are exceeded, and the
#: largest counts: exceedances further out come in tighter clumps.
TAIL_PARTS = (1.0, 0.5, 0.25)
#: For a near limit here too: a replay that met few bursts shows them in the body before it shows
#: them in the tail.
BODY_PARTS = (4.0, 2.0)
#: For a remote limit only here: what the outermost samples do. With the others even a limit at
#: ten times the truth stayed undecided in a third of the replays of a calm queue.
EXTREME_PART = 0.1
#: Few exceedances are at most this part of the allowed share. A limit with few is far; it is
#: remote when two thirds of it have few, too.
FEW = 0.1
REMOTE_FACTOR = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class TailTest:
    """One pooled sample, ready to be held against any limit."""

    sample: Pool
    #: samples that may exceed a limit, 0..1
    allowed: float
    confidence: float
    #: effective samples for a near, a far and a remote limit
    near: float
    far: float
    remote: float

    def bounds(self, limit: float) -> ShareBounds:
        """Of the share over a limit in ns."""
        return bounds_at(self.sample.share_over(limit), self._size(limit), self.confidence)

    def percentile(self) -> tuple[float, float, float]:
        """(lower, estimate, upper) in ns: below the first every limit is missed, from the last
        on every limit is met; 0 and +inf where the sample bounds nothing."""
        return (
            self._least(lambda verdict: verdict is not Verdict.MISSED),
            self.sample.at(nearest_rank(self.allowed, len(self.sample))),
            self._least(lambda verdict: verdict is Verdict.MET),
        )

    def _least(self, holds: Callable[[Verdict], bool]) -> float:
        """The least limit with such a verdict, which all above it have too; +inf without one.

        The verdict can change only at a sample, or where two thirds of the limit are one.
        """
        values = self.sample.values
        return min(
            _first(steps, lambda limit: holds(self._verdict(limit)))
            for steps in (np.zeros(1), values, values * REMOTE_FACTOR)
        )

    def _verdict(self, limit: float) -> Verdict:
        return verdict(self.bounds(limit), self.allowed)

    def _size(self, limit: float) -> float:
        few = FEW * self.allowed
        if self.sample.share_over(limit) > few:
            return self.near
        return self.far if self.sample.share_over(limit / REMOTE_FACTOR) > few else self.remote


def verdict(bounds: ShareBounds, allowed: float) -> Verdict:
    """MET when the upper bound is at most the allowed share, MISSED when the lower is above."""
    if bounds.upper <= allowed:
        return Verdict.MET
    return Verdict.MISSED if bounds.lower > allowed else Verdict.UNDECIDED


def tail_test(sample: Pool, allowed: float, confidence: float) -> TailTest:
    """Prepare a non-empty sample for targets with this allowed share."""

    def size(deff: float) -> float:
        return effective_size(len(sample), sample.blocks, confidence, deff)

    extreme = deff_at(sample, allowed * EXTREME_PART)
    tail = max(extreme, *(deff_at(sample, allowed * part) for part in TAIL_PARTS))
    body = [deff_at(sample, allowed * part) for part in BODY_PARTS if allowed * part <= 0.5]
    return TailTest(
        sample, allowed, confidence, size(max(tail, *body, 1.0)), size(tail), size(extreme)
    )


def deff_at(sample: Pool, share: float) -> float:
    """The design effect of exceeding the value that this share of the sample exceeds."""
    value = sample.at(nearest_rank(share, len(sample)))
    over = sample.over(value)
    if not over.any():
        # many equal values reach the end of the sample: what clumps is reaching them
        over = sample.over(math.nextafter(value, -math.inf))
    return design_effect(over, sample.totals, sample.replay)


def nearest_rank(allowed_share: float, n: int) -> int:
    """0-based rank of the percentile: the least value with at most that share of n above it."""
    return n - 1 - math.floor(round(allowed_share * n, 9))


def _first(steps: Float64, holds: Callable[[float], bool]) -> float:
    """The first of ascending steps for which holds what, once true, stays true; else +inf."""
    low, high = -1, len(steps)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(float(steps[middle])) else (middle, high)
    return float(steps[high]) if high < len(steps) else math.inf
