"""Targets as asked become targets that can be judged."""

from collections.abc import Sequence

from advisor.measure.summary import ReplaySummary, pooled_percentile_ns
from advisor.terms.errors import TargetError
from advisor.terms.target import Target


def resolve_targets(
    targets: Sequence[Target], baseline: Sequence[ReplaySummary]
) -> tuple[Target, ...]:
    """Limits relative to the baseline's estimate become absolute, once and for the whole job.

    Raises TargetError when the baseline gives no finite estimate to multiply.
    """
    return tuple(_absolute(t, baseline) if t.is_relative else t for t in targets)


def _absolute(target: Target, baseline: Sequence[ReplaySummary]) -> Target:
    assert target.percentile is not None  # only a rate has none, and a rate is never relative
    estimate_ns = pooled_percentile_ns(baseline, target.metric, target.percentile)
    if estimate_ns is None or estimate_ns == float("inf"):
        raise TargetError(
            f"target {target}: the baseline gives no finite {target.metric} "
            f"p{target.percentile:g} to take it from; give the limit in ms"
        )
    return target.resolved(estimate_ns)
