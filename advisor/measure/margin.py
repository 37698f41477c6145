"""Limits moved as far as a rehearsal says that the bounds are off.

Near saturation, and where bursts are rare, three windows may by luck show nothing of the tail, and
no arithmetic on them alone can know it. A rehearsal of the same profile can: at each of several
loads it knows the true percentile and how far below it the upper bounds of such pools come to lie.
A limit is then judged as the tighter one that they would have reached. Raising the nominal level
alone was tried: where one pool in three shows not one exceedance, no level helps. A margin alone
was tried: where a percentile lies between many short steps and a few long ones, it jumps by their
whole ratio. So a level is chosen, and the margin that it needs (docs/measuring.md has figures).
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from advisor.terms.calibration import Rehearsed

#: A rung whose bounds are off by more than this factor is out of reach for pools of this length:
#: limits near it, and looser ones, count as the tighter ones below it.
MOST_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class _Curve:
    """Limit -> the limit that is judged, straight on log scales, rising, level beyond `ends`."""

    #: (limit, judged), both ascending, ns; empty: every limit is judged as it is
    knots: tuple[tuple[float, float], ...] = ()
    #: limits above count as this one
    ends: float = math.inf

    def at(self, limit: float) -> float:
        limit = min(limit, self.ends)
        if not self.knots or limit <= 0:
            return limit
        return limit * math.exp(_between(self.knots, limit))

    def least(self, judged: float) -> float:
        """The least limit that is judged as this one or a looser one; +inf where none is."""
        if not self.knots or judged <= 0 or math.isinf(judged):
            return judged if self.ends > 0 else math.inf
        turned = [(b, a) for a, b in self.knots]
        found = judged * math.exp(_between(turned, judged))
        return found if found <= self.ends * (1 + 1e-12) else math.inf


def _between(knots: Iterable[tuple[float, float]], x: float) -> float:
    """log(y / x) at x: linear in log x between the knots, constant beyond them."""
    points = [(math.log(a), math.log(b / a)) for a, b in knots]
    at = math.log(x)
    right = bisect_left(points, at, key=lambda point: point[0])
    if right == 0:
        return points[0][1]
    if right == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[right - 1], points[right]  # x0 < at <= x1
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True)
class Margin:
    """How limits are moved before they are judged; without a rehearsal they stay."""

    #: for the upper bound: to a tighter limit
    tight: _Curve = field(default_factory=_Curve)
    #: for the lower bound: to a looser one
    loose: _Curve = field(default_factory=_Curve)
    #: level that the upper bound is computed at, None: the one it is asked at
    nominal: float | None = None

    def upper(self, bound: float) -> float:
        """The percentile's upper bound, ns: from it on every limit is met."""
        return self.tight.least(bound)

    def lower(self, bound: float) -> float:
        """The percentile's lower bound, ns: below it every limit is missed."""
        return self.loose.least(bound)


def margin_of(rehearsed: Rehearsed | None) -> Margin:
    """The margin at any limit (ns), from rungs at a few loads.

    A setting that sits exactly on a limit is one whose truth is that limit, so the rungs beside it
    tell how far its bounds are off. No limit is moved to its own advantage, and a looser limit
    never comes out tighter than a tighter one.
    """
    if rehearsed is None:
        return Margin()
    rungs = sorted(rehearsed.rungs, key=lambda rung: rung.truth_ms)
    uppers = [min(rung.upper_ms, rung.truth_ms) for rung in rungs]
    rising = list(accumulate(reversed(uppers), min))[::-1]
    lowers = accumulate((max(rung.lower_ms, rung.truth_ms) for rung in rungs), max)
    tight = [(rung.truth_ms * 1e6, y * 1e6) for rung, y in zip(rungs, rising, strict=True)]
    loose = [(rung.truth_ms * 1e6, y * 1e6) for rung, y in zip(rungs, lowers, strict=True)]
    reached = 0
    while reached < len(tight) and tight[reached][0] <= MOST_FACTOR * uppers[reached] * 1e6:
        reached += 1
    ends = math.inf if reached == len(tight) else tight[reached - 1][0] if reached else 0.0
    return Margin(_Curve(tuple(tight[:reached]), ends), _Curve(tuple(loose)), rehearsed.nominal)
