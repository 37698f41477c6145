"""One target held against pooled replays."""

from collections.abc import Sequence

from advisor.measure.bounds import ShareBounds, bounds_at, design_effect, effective_size
from advisor.measure.curves import Curves, Pool, pool
from advisor.measure.tail import nearest_rank as nearest_rank
from advisor.measure.tail import tail_test, verdict
from advisor.terms.measurement import Judgement
from advisor.terms.target import Metric, Target, Verdict


def judge(replays: Sequence[Curves], target: Target, confidence: float) -> Judgement:
    """Judge a target at a one-sided level (0.5..1).

    MET when the upper bound of the share over the limit is at most the allowed share, MISSED when
    the lower bound is above it, else UNDECIDED; no samples decide nothing. A latency is met
    exactly when the upper bound of its percentile is within the limit. Raises ValueError for a
    target that is still relative to a baseline, or no replay.
    """
    return judge_pool(pool(replays, target.metric), target, confidence)


def judge_pool(sample: Pool, target: Target, confidence: float) -> Judgement:
    """`judge`, for who has the pool of the target's metric already."""
    if target.is_relative:
        raise ValueError(f"{target} is relative to a baseline and must be resolved first")
    if not len(sample):
        return _without_samples(target, confidence)
    if target.metric is Metric.ERRORS:
        shares = _error_bounds(sample, confidence)
        estimate, lower, upper = (share * 100 for share in shares)
    else:
        test = tail_test(sample, target.allowed_share, confidence)
        shares = test.bounds(target.limit_ns)
        lower, estimate, upper = (value / 1e6 for value in test.percentile())
    return Judgement(
        target=target,
        verdict=verdict(shares, target.allowed_share),
        estimate=estimate,
        lower=lower,
        upper=upper,
        share_over=shares.share,
        share_over_lower=shares.lower,
        share_over_upper=shares.upper,
        samples=len(sample),
        blocks=sample.blocks,
        confidence=confidence,
    )


def _error_bounds(sample: Pool, confidence: float) -> ShareBounds:
    """Of the share of requests that failed."""
    n, failed = len(sample), sample.over(0.5)  # a failed request is a 1 among zeros
    if not failed.any():
        return bounds_at(0.0, n, confidence)  # no clustering to estimate: exact for no events
    deff = design_effect(failed, sample.totals, sample.replay)
    size = effective_size(n, sample.blocks, confidence, deff)
    return bounds_at(int(failed.sum()) / n, size, confidence)


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
