"""Whether two settings differ on every window, so that no single launch makes the difference."""

import math
from collections.abc import Sequence

from advisor.measure.curves import Curves
from advisor.measure.headroom import worst_excess
from advisor.measure.measure import measure
from advisor.terms.target import Target

#: On a light window both may be within their limits: this much nearer to one, as the logarithm of
#: estimate / limit, is more than launches of one setting differ by where no queue grows.
_NEARER = math.log(1.1)


def are_apart(
    pairs: Sequence[tuple[Curves, Curves]], targets: Sequence[Target], confidence: float
) -> bool:
    """Of (ours, theirs) on one window each, every replay on a launch of its own.

    Ours has to lie within all limits on each window, theirs over one. Of three windows one may be
    so light that theirs lies within too, but then clearly nearer to its limit (how often equal
    settings look so: docs/measuring.md).
    """
    light = 0
    for ours, theirs in pairs:
        our_excess, their_excess = (_excess(each, targets, confidence) for each in (ours, theirs))
        if our_excess > 0 or their_excess - our_excess < _NEARER:
            return False
        light += their_excess <= 0
    return bool(pairs) and light <= len(pairs) // 3


def _excess(replay: Curves, targets: Sequence[Target], confidence: float) -> float:
    return worst_excess(measure([replay], targets, 1.0, confidence))
