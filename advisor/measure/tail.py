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

from advisor.measure.bounds import (
    ShareBounds,
    bounds_at,
    design_effect,
    effective_size,
    lower_is_within,
    upper_is_within,
)
from advisor.measure.curves import Pool
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
        estimate = self.sample.at(nearest_rank(self.allowed, len(self.sample)))
        return self.lower(), estimate, self.upper()

    def lower(self) -> float:
        """The percentile's lower bound, ns: the least limit that is not missed.

        Only a near limit can be missed: beyond it the share itself is below the allowed one.
        """
        return self._least(self._most(self.near, lower_is_within))

    def upper(self) -> float:
        """The percentile's upper bound, ns: the least limit that is met, as one of its kind."""
        near, far, remote = (
            self._most(size, upper_is_within) for size in (self.near, self.far, self.remote)
        )
        few = self._most_of_few()
        return min(
            self._least(near),
            self._least(min(far, few)),
            max(self._least(remote), self._remote_from(self._least(few))),
        )

    def _most_of_few(self) -> int:
        """How many samples over a limit still count as few."""
        n = len(self.sample)
        over = math.floor(self._few * n) + 1
        while over / n > self._few:
            over -= 1
        return over

    def _most(self, size: float, is_within: Callable[[float, float, float, float], bool]) -> int:
        """How many samples may lie over a limit with this bound at most the allowed share; -1
        when not even none may."""
        n = len(self.sample)
        low, high = -1, n + 1
        while high - low > 1:
            middle = (low + high) // 2
            if is_within(middle / n, size, self.confidence, self.allowed):
                low = middle
            else:
                high = middle
        return low

    def _least(self, over: int) -> float:
        """The least limit with at most so many samples over it, 0 for all of them, +inf for -1."""
        n = len(self.sample)
        if over < 0:
            return math.inf
        return 0.0 if over >= n else self.sample.at(n - 1 - over)

    def _remote_from(self, value: float) -> float:
        """The least limit of which two thirds are this value; rounding may need one step more."""
        limit = value * REMOTE_FACTOR
        return limit if limit / REMOTE_FACTOR >= value else math.nextafter(limit, math.inf)

    @property
    def _few(self) -> float:
        return FEW * self.allowed

    def _size(self, limit: float) -> float:
        if self.sample.share_over(limit) > self._few:
            return self.near
        beyond = self.sample.share_over(limit / REMOTE_FACTOR) > self._few
        return self.far if beyond else self.remote


def verdict(bounds: ShareBounds, allowed: float) -> Verdict:
    """MET when the upper bound is at most the allowed share, MISSED when the lower is above."""
    if bounds.upper <= allowed:
        return Verdict.MET
    return Verdict.MISSED if bounds.lower > allowed else Verdict.UNDECIDED


@dataclass(frozen=True, slots=True, eq=False)
class Clumping:
    """One pooled sample, and the design effects of exceeding a near, a far and a remote limit."""

    sample: Pool
    #: samples that may exceed a limit, 0..1
    allowed: float
    near: float
    far: float
    remote: float

    def test(self, confidence: float) -> TailTest:
        """The test at a one-sided level (0.5..1)."""
        sizes = (
            effective_size(len(self.sample), self.sample.blocks, confidence, deff)
            for deff in (self.near, self.far, self.remote)
        )
        return TailTest(self.sample, self.allowed, confidence, *sizes)


def clumping(sample: Pool, allowed: float) -> Clumping:
    """Of a non-empty sample, for targets with this allowed share."""
    extreme = deff_at(sample, allowed * EXTREME_PART)
    tail = max(extreme, *(deff_at(sample, allowed * part) for part in TAIL_PARTS))
    body = [deff_at(sample, allowed * part) for part in BODY_PARTS if allowed * part <= 0.5]
    return Clumping(sample, allowed, max(tail, *body, 1.0), tail, extreme)


def tail_test(sample: Pool, allowed: float, confidence: float) -> TailTest:
    """Prepare a non-empty sample for targets with this allowed share."""
    return clumping(sample, allowed).test(confidence)


def deff_at(sample: Pool, share: float) -> float:
    """The design effect of exceeding the value that this share of the sample exceeds."""
    value = sample.at(nearest_rank(share, len(sample)))
    over = sample.over(value)
    if not over.any():
        # many equal values reach the end of the sample: what clumps is reaching them
        over = sample.over(math.nextafter(value, -math.inf))
    return design_effect(over, sample.totals, sample.replay)


def seen_at(sample: Pool, allowed_share: float) -> float:
    """The percentile among the samples that were seen, at least one, ns."""
    unseen = sample.unseen
    return sample.at(unseen + nearest_rank(allowed_share, len(sample) - unseen))


def nearest_rank(allowed_share: float, n: int) -> int:
    """0-based rank of the percentile: the least value with at most that share of n above it."""
    return n - 1 - math.floor(round(allowed_share * n, 9))
