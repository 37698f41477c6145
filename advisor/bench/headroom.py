"""Headroom inside one launch: at which load multiples to replay, after the job's own."""

import math
from collections.abc import Awaitable, Callable, Sequence

from advisor.measure.headroom import worst_excess
from advisor.terms.measurement import Measurement
from advisor.terms.target import Verdict

#: Replays every search window at one multiple and judges the pool; None when it was void.
MeasureAt = Callable[[float], Awaitable[Measurement | None]]

#: Multiples whose ratio is below this are taken as one: launches of one setting differ by as much.
_NEAR = 1.12
#: How often a step of the ladder is halved.
_HALVINGS = 2


async def bracket(
    multiples: Sequence[float],
    load: float,
    at_load: Measurement,
    measure_at: MeasureAt,
    to_beat: float | None = None,
) -> list[Measurement]:
    """Bisect the ladder of multiples from the job's load on; ascending, `at_load` included.

    A replay that meets sends the search up, one that misses sends it down; an undecided one goes
    by its point estimate, but stays undecided, and a void one sends it down, where the client has
    less to do. Above the job's load a step of the ladder is halved, and its half, unless its ends
    are near: there settings are compared by it. At an end of the ladder the answer is one-sided.

    `to_beat` is the multiple that a setting has to carry to be of use. It is tried first, and who
    provably misses there is left at that: how far behind it lies is not worth its replays.
    """
    first = None if to_beat is None or _are_near(to_beat, load) else min(to_beat, max(multiples))
    known = [each for each in (load, first) if each is not None]
    others = [m for m in multiples if not any(_are_near(m, each) for each in known)]
    ladder = sorted({*known, *others})
    tried = {load: at_load}
    below, above = (load, math.inf) if _goes_up(at_load) else (0.0, load)
    while True:
        multiple = _between(ladder, below, above, first)
        if multiple is None and len(tried.keys() - set(ladder)) < _HALVINGS:
            multiple = _half(below, above, load)
        if multiple is None:
            break
        measured = await measure_at(multiple)
        if measured is not None:
            tried[multiple] = measured
            if multiple == first and measured.verdict is Verdict.MISSED:
                break
        up = measured is not None and _goes_up(measured)
        below, above = (multiple, above) if up else (below, multiple)
    return [tried[multiple] for multiple in sorted(tried)]


def _between(
    ladder: Sequence[float], below: float, above: float, first: float | None
) -> float | None:
    """The multiple of the ladder to try next, None between neighbours."""
    inside = [multiple for multiple in ladder if below < multiple < above]
    if first in inside:
        return first
    return inside[(len(inside) - 1) // 2] if inside else None


def _half(below: float, above: float, load: float) -> float | None:
    """In the middle of a step that is worth to be told more closely."""
    if below < load or above == math.inf or _are_near(below, above):
        return None
    return float(f"{math.sqrt(below * above):.3g}")


def _are_near(one: float, other: float) -> bool:
    return max(one, other) < _NEAR * min(one, other)


def _goes_up(measurement: Measurement) -> bool:
    if measurement.verdict is not Verdict.UNDECIDED:
        return measurement.verdict is Verdict.MET
    return worst_excess(measurement) <= 0
