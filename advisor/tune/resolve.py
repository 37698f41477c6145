"""Targets as asked become targets that can be judged."""

import math
from collections.abc import Sequence

from advisor.measure.curves import Curves, pool
from advisor.measure.tail import nearest_rank
from advisor.terms.errors import TargetError
from advisor.terms.target import Target


def resolve_targets(targets: Sequence[Target], baseline: Sequence[Curves]) -> tuple[Target, ...]:
    """Limits relative to the baseline's estimate become absolute, once and for the whole job.

    Raises TargetError when the baseline gives no finite estimate to multiply.
    """
    return tuple(_absolute(t, baseline) if t.is_relative else t for t in targets)


def _absolute(target: Target, baseline: Sequence[Curves]) -> Target:
    sample = pool(baseline, target.metric)
    n = len(sample)
    estimate_ns = sample.at(nearest_rank(target.allowed_share, n)) if n else math.inf
    if math.isinf(estimate_ns):
        raise TargetError(
            f"target {target}: the baseline gives no finite {target.metric} "
            f"p{target.percentile:g} to take it from; give the limit in ms"
        )
    return target.resolved(estimate_ns)
