"""One target held against pooled replays.

The test is on the share of samples over the limit; the percentile's bounds are the same test
turned round (Woodruff, Journal of the American Statistical Association 47, 1952), so that the
target is met exactly when the upper bound of the percentile is within the limit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.measure.bounds import ShareBounds, bounds_at, design_effect, effective_size
from advisor.measure.curves import Curves, Pool, pool
from advisor.terms.measurement import Judgement
from advisor.terms.target import Metric, Target, Verdict

#: The design effect is taken at these multiples of the target's allowed share, and the largest
#: counts: exceedances further out come in tighter clumps, and a limit that nothing exceeds shows
#: none at all.
TAIL_PARTS = (1.0, 0.5, 0.25)
#: And at these, unless the limit is a far one: a replay that met few bursts shows them in the body
#: before it shows them in the tail.
BODY_PARTS = (4.0, 2.0)
#: A limit is far when its exceedances are at most this part of the allowed share. The body then
#: says little about it, and would leave even a limit at four times the truth undecided.
FAR = 0.1
#: Among the samples of the error rate a failed request is a 1, any other a 0.
_FAILED = 0.5


def judge(replays: Sequence[Curves], target: Target, confidence: float) -> Judgement:
    """Judge a target at a one-sided level (0.5..1).

    MET when the upper bound of the share over the limit is at most the allowed share, MISSED when
    the lower bound is above it, else UNDECIDED; no samples decide nothing. Raises ValueError for
    a target that is still relative to a baseline, or no replay.
    """
    if target.is_relative:
        raise ValueError(f"{target} is relative to a baseline and must be resolved first")
    sample = pool(replays, target.metric)
    if not len(sample):
        return _without_samples(target, confidence)
    rate = target.metric is Metric.ERRORS
    test = _test(sample, target, confidence)
    over = int(sample.over(_limit(target)).sum())
    shares = test.bounds(over)
    lower, estimate, upper = (
        (shares.lower * 100, shares.share * 100, shares.upper * 100)
        if rate
        else (value / 1e6 for value in _percentile_bounds(sample, test))
    )
    return Judgement(
        target=target,
        verdict=test.verdict(over),
        estimate=estimate,
        lower=lower,
        upper=upper,
        share_over=shares.share,
        share_over_lower=shares.lower,
        share_over_upper=shares.upper,
        samples=test.n,
        blocks=test.blocks,
        confidence=confidence,
    )


def _without_samples(target: Target, confidence: float) -> Judgement:
    return Judgement(
        target=target,
        verdict=Verdict.UNDECIDED,
        estimate=None,
        lower=None,
        upper=None,
        share_over=None,
        share_over_lower=None,
        share_over_upper=None,
        samples=0,
        blocks=0,
        confidence=confidence,
    )


def nearest_rank(allowed_share: float, n: int) -> int:
    """0-based rank of the percentile: the least value with at most that share of n above it."""
    return n - 1 - math.floor(round(allowed_share * n, 9))


def _limit(target: Target) -> float:
    return _FAILED if target.metric is Metric.ERRORS else float(target.limit_ns)


@dataclass(frozen=True, slots=True)
class _Test:
    """The share test, with everything in it but the number of exceedances."""

    n: int
    blocks: int
    #: effective samples for a limit that lies far out, and for any other
    far_size: float
    size: float
    allowed: float
    confidence: float

    def bounds(self, k: int) -> ShareBounds:
        far = k <= FAR * self.allowed * self.n
        return bounds_at(k / self.n, self.far_size if far else self.size, self.confidence)

    def verdict(self, k: int) -> Verdict:
        bounds = self.bounds(k)
        if bounds.upper <= self.allowed:
            return Verdict.MET
        return Verdict.MISSED if bounds.lower > self.allowed else Verdict.UNDECIDED


def _test(sample: Pool, target: Target, confidence: float) -> _Test:
    n, blocks = len(sample), int((sample.totals > 0).sum())
    if target.metric is Metric.ERRORS:
        far = size = _error_size(sample, blocks, confidence)
    else:
        deffs = tail_design_effects(sample, target.allowed_share)
        far, size = (effective_size(n, blocks, confidence, deff) for deff in deffs)
    return _Test(n, blocks, far, size, target.allowed_share, confidence)


def _error_size(sample: Pool, blocks: int, confidence: float) -> float:
    over = sample.over(_FAILED)
    if not over.any():
        return float(len(sample))  # no clustering to estimate: the exact bound of no events
    deff = design_effect(over, sample.totals, sample.replay)
    return effective_size(len(sample), blocks, confidence, deff)


def tail_design_effects(sample: Pool, allowed_share: float) -> tuple[float, float]:
    """The design effects (for a far limit, for any other) of a latency's tail.

    They depend on the limit only through far or not, and the far one is the smaller. Were they
    taken at the limit itself, the bound could fall while exceedances rise, and a looser limit
    could fail where a tighter one passes.
    """
    tail = [_design_effect_at(sample, allowed_share * part) for part in TAIL_PARTS]
    body = [allowed_share * part for part in BODY_PARTS if allowed_share * part <= 0.5]
    return max(tail), max(tail + [_design_effect_at(sample, share) for share in body])


def _design_effect_at(sample: Pool, share: float) -> float:
    value = float(sample.values[nearest_rank(share, len(sample))])
    over = sample.over(value)
    if not over.any():
        # many equal values reach the end of the sample: what clumps is reaching them
        over = sample.over(math.nextafter(value, -math.inf))
    return design_effect(over, sample.totals, sample.replay)


def _percentile_bounds(sample: Pool, test: _Test) -> tuple[float, float, float]:
    """(lower, estimate, upper) in ns: the limits between which the verdict is undecided."""
    values, n = sample.values, test.n
    most = _last(
        lambda k: test.verdict(k) is Verdict.MET, n
    )  # exceedances with which a limit is still met
    least = _last(lambda k: test.verdict(k) is not Verdict.MISSED, n) + 1  # and is first missed
    return (
        float(values[n - least]) if least <= n else 0.0,
        float(values[nearest_rank(test.allowed, n)]),
        float(values[n - 1 - most]) if most >= 0 else math.inf,
    )


def _last(holds: Callable[[int], bool], n: int) -> int:
    """The largest k in 0..n for which a condition that only ever turns false holds, else -1."""
    low, high = -1, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
