"""One target held against pooled replays."""

import math
from collections.abc import Sequence
from dataclasses import replace

from advisor.measure.bounds import ShareBounds, bounds_at, design_effect, effective_size
from advisor.measure.curves import Curves, Pool, pool
from advisor.measure.margin import Margin, margin_of
from advisor.measure.tail import clumping, seen_at, verdict
from advisor.terms.calibration import Calibration
from advisor.terms.measurement import Judgement
from advisor.terms.target import Metric, Target, Verdict


def judge(
    replays: Sequence[Curves],
    target: Target,
    confidence: float,
    calibration: Calibration | None = None,
) -> Judgement:
    """Judge a target at a one-sided level (0.5..1), with the margin that a rehearsal asks for.

    MET when the upper bound of the share over the limit is at most the allowed share, MISSED when
    the lower bound is above it, else UNDECIDED; no samples decide nothing. A latency is met
    exactly when the upper bound of its percentile is within the limit. Where others were rehearsed
    and its percentile was not, it is met only where a harder one is. What an early stop kept
    from being seen has no upper bound, and counts as perfect in the lower one; what waited still
    has none beyond its wait. Raises ValueError for a target that is still relative to a baseline,
    or no replay.
    """
    return judge_pool(pool(replays, target.metric), target, confidence, calibration)


def judge_pool(
    sample: Pool, target: Target, confidence: float, calibration: Calibration | None = None
) -> Judgement:
    """`judge`, for who has the pool of the target's metric already."""
    if target.is_relative:
        raise ValueError(f"{target} is relative to a baseline and must be resolved first")
    if len(sample) == sample.unseen:
        return _without_samples(target, confidence)
    if target.metric is Metric.ERRORS:
        shares = _error_bounds(sample, confidence)
        estimate, lower, upper = (share * 100 for share in shares)
    else:
        shares, lower, upper = _latency_bounds(sample, target, confidence, calibration)
        estimate = seen_at(sample, target.allowed_share) / 1e6
    seen = len(sample) - sample.unseen
    if sample.unseen:
        # what is told of such a sample is what was seen; the lower bound is of all of it
        shares = ShareBounds(shares.share * len(sample) / seen, shares.lower, 1.0)
        upper = math.inf
        if target.metric is Metric.ERRORS:
            estimate = 100 * shares.share
    return Judgement(
        target=target,
        verdict=verdict(shares, target.allowed_share),
        estimate=estimate,
        lower=lower,
        upper=upper,
        share_over=shares.share,
        share_over_lower=shares.lower,
        share_over_upper=shares.upper,
        samples=seen,
        blocks=sample.blocks,
        confidence=confidence,
    )


def margin_for(target: Target, confidence: float, calibration: Calibration | None) -> Margin:
    """What was rehearsed for this target; nothing is moved where nothing was."""
    if calibration is None:
        return Margin()
    return margin_of(calibration.of(target.metric, target.percentile, confidence))


def _latency_bounds(
    sample: Pool, target: Target, confidence: float, calibration: Calibration | None
) -> tuple[ShareBounds, float, float]:
    """Of the share over the limit, and of the percentile, ms."""
    margin = margin_for(target, confidence, calibration)
    shares, lower, upper = _bounds_with(margin, sample, target, confidence)
    if calibration is None or target.percentile is None:
        return shares, lower, upper
    rehearsed = calibration.harder(target.metric, target.percentile)
    if rehearsed == target.percentile:
        return shares, lower, upper
    # nobody knows how far its own upper bound is off
    if rehearsed is None:
        return ShareBounds(shares.share, shares.lower, 1.0), lower, math.inf
    harder = replace(target, percentile=rehearsed)
    theirs, _, upper = _latency_bounds(sample, harder, confidence, calibration)
    met = theirs.upper <= harder.allowed_share
    return ShareBounds(shares.share, shares.lower, theirs.upper if met else 1.0), lower, upper


def _bounds_with(
    margin: Margin, sample: Pool, target: Target, confidence: float
) -> tuple[ShareBounds, float, float]:
    clumped = clumping(sample, target.allowed_share)
    test, stricter = clumped.test(confidence), clumped.test(margin.nominal or confidence)
    limit = target.limit_ns
    # no fewer samples lie over it than over a looser limit, no more than over a tighter one;
    # of those over the longest limit that is known, no fewer than over one beyond
    known = math.nextafter(sample.known_below, -math.inf)
    shares = ShareBounds(
        share=sample.share_over(limit),
        lower=test.bounds(margin.loose.at(limit)).lower,
        upper=stricter.bounds(min(margin.tight.at(limit), known)).upper,
    )
    lower = margin.lower(max(test.lower(), 0.0)) / 1e6
    upper = stricter.upper()
    return shares, lower, math.inf if upper > known else margin.upper(upper) / 1e6


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
