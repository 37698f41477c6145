"""Headroom inside one launch: at which load multiples to replay, after the job's own."""

from collections.abc import Awaitable, Callable, Sequence

from advisor.measure.headroom import worst_excess
from advisor.terms.measurement import Measurement
from advisor.terms.target import Verdict

#: Replays every search window at one multiple and judges the pool; None when it was void.
MeasureAt = Callable[[float], Awaitable[Measurement | None]]


async def bracket(
    multiples: Sequence[float],
    load: float,
    at_load: Measurement,
    measure_at: MeasureAt,
    incumbent: float | None = None,
) -> list[Measurement]:
    """Bisect the ladder of multiples from the job's load on; ascending, `at_load` included.

    A replay that meets sends the search up, one that misses sends it down; an undecided one goes
    by its point estimate, but stays undecided, and a void one sends it down, where the client has
    less to do. Stops when neighbours on the ladder differ, or at an end of it: the answer is then
    one-sided.

    `incumbent` is the multiple that the best setting so far carries. It is tried first, and who
    provably misses there is left at that: how far behind it lies is not worth its replays.
    """
    ladder = sorted({*multiples, load})
    tried = {load: at_load}
    low, high = (ladder.index(load), len(ladder))
    if not _goes_up(at_load):
        low, high = -1, ladder.index(load)
    first = _rung(ladder, incumbent)
    while high - low > 1:
        middle = first if first is not None and low < first < high else (low + high) // 2
        measured = await measure_at(ladder[middle])
        if measured is not None:
            tried[ladder[middle]] = measured
        up = measured is not None and _goes_up(measured)
        low, high = (middle, high) if up else (low, middle)
        if middle == first and measured is not None and measured.verdict is Verdict.MISSED:
            break
        first = None
    return [tried[multiple] for multiple in sorted(tried)]


def _rung(ladder: Sequence[float], incumbent: float | None) -> int | None:
    """The highest at or below what the incumbent carries."""
    if incumbent is None:
        return None
    return sum(multiple <= incumbent for multiple in ladder) - 1


def _goes_up(measurement: Measurement) -> bool:
    if measurement.verdict is not Verdict.UNDECIDED:
        return measurement.verdict is Verdict.MET
    return worst_excess(measurement) <= 0
