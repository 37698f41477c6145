"""Whether a replay that is still running can be ended, because its answer is certain already.

Two reasons, both from what has happened so far alone. Out of reach: even if everything still to
come, in this window and in every later one, were perfect, the verdict would be "missed". Not
stationary: requests in flight and waits both rise, beyond what chance explains, while most waits
are over the limit already: the server falls behind, and a longer replay only shows longer waits.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from advisor.measure.bounds import design_effect, share_bounds
from advisor.measure.curves import BLOCKS_PER_WINDOW, Curves, block_of
from advisor.measure.definitions import Float64, received_tokens, request_of_event
from advisor.terms.target import Metric, Target
from advisor.terms.traces import Int64, RequestStatus, Traces

#: Slices of the time so far, which are the points that a slope is fitted to.
SLICES = 20
#: Fewer requests so far show no slope worth acting on.
LEAST_REQUESTS = 60
#: Neighbouring slices share their queue: so many of them count as one independent point.
_SLICES_PER_POINT = 2.0


def out_of_reach(
    so_far: Traces,
    now_ns: int,
    target: Target,
    confidence: float,
    earlier: Sequence[Curves] = (),
    windows_left: int = 0,
) -> bool:
    """Whether the target is missed at a one-sided level, whatever is still to come.

    `so_far` holds every request of the window: events up to `now_ns`, requests that are open or
    not yet sent as STOPPED. `earlier` are the windows of the same verdict that are done, and
    `windows_left` those still to be played over all planned looks: each is taken to be as large
    as this one, and perfect. TPOT has no value before a request's end and is never out of reach.
    """
    if target.metric is Metric.TPOT or not so_far.counted.any():
        return False
    over, total = _blocks(so_far, now_ns, target)
    done = [curves.by_metric[target.metric] for curves in earlier]
    limit = 0.5 if target.metric is Metric.ERRORS else target.limit_ns
    overs = [*(curve.over(limit) for curve in done), over]
    totals = [*(curve.totals for curve in done), total]
    overs += [np.zeros_like(over)] * windows_left
    totals += [total] * windows_left
    replay = np.repeat(np.arange(len(overs)), [len(each) for each in overs])
    all_over, all_total = np.concatenate(overs), np.concatenate(totals)
    if not all_total.sum():
        return False
    # perfect blocks beside bad ones make the design effect large: what one burst did never stops
    deff = design_effect(all_over, all_total, replay)
    return share_bounds(all_over, all_total, confidence, deff).lower > target.allowed_share


def _blocks(traces: Traces, now_ns: int, target: Target) -> tuple[Int64, Int64]:
    """int64[BLOCKS_PER_WINDOW] each: samples certainly over the limit, and all samples planned.

    Both at the arrival of their request, since the end of a sample still to come is unknown.
    """
    block = block_of(traces.planned_ns, traces.window_start_ns, traces.window_end_ns)
    gaps = target.metric in (Metric.ITL, Metric.TOKEN_ITL)
    planned = np.maximum(traces.output_tokens - 1, 0) if gaps else np.ones_like(block)
    over = _gaps_over(traces, now_ns, target) if gaps else _requests_over(traces, now_ns, target)
    counted = traces.counted
    sums = (
        np.bincount(block[counted], column[counted], BLOCKS_PER_WINDOW)
        for column in (np.minimum(over, planned), planned)
    )
    certain, total = (column.astype(np.int64) for column in sums)
    return certain, total


def _requests_over(traces: Traces, now_ns: int, target: Target) -> Int64:
    """int64[n], 1 where the request is certainly over the limit."""
    failed = _failed(traces)
    if target.metric is Metric.ERRORS:
        return failed.astype(np.int64)
    has_event = np.diff(traces.event_offsets) > 0
    until = np.full(len(traces), now_ns, dtype=np.int64)
    if target.metric is Metric.TTFT:
        until[has_event] = traces.event_ns[traces.event_offsets[:-1][has_event]]
    else:
        done = has_event & (traces.status == RequestStatus.OK)
        until[done] = traces.event_ns[traces.event_offsets[1:][done] - 1]
    late = until - traces.planned_ns > target.limit_ns
    return (failed | late).astype(np.int64)


def _gaps_over(traces: Traces, now_ns: int, target: Target) -> Int64:
    """int64[n], gaps of each request that are certainly over the limit."""
    owner = request_of_event(traces)
    within = owner[1:] == owner[:-1]
    gaps, carried = np.diff(traces.event_ns)[within], traces.event_tokens[1:][within]
    per_token = target.metric is Metric.TOKEN_ITL
    long = gaps / carried > target.limit_ns if per_token else gaps > target.limit_ns
    weight = np.where(long, carried if per_token else 1, 0)
    over = np.bincount(owner[1:][within], weight, len(traces)).astype(np.int64)
    owed = np.maximum(traces.output_tokens - received_tokens(traces), 0)
    over[_failed(traces)] += owed[_failed(traces)]
    waiting = (traces.status == RequestStatus.STOPPED) & (np.diff(traces.event_offsets) > 0)
    last = traces.event_ns[traces.event_offsets[1:][waiting] - 1]
    # tokens that share one event share its gap: only a gap of its own is certain to be over
    if not per_token:
        over[waiting] += now_ns - last > target.limit_ns
    return over


def _failed(traces: Traces) -> NDArray[np.bool_]:
    """bool[n]; STOPPED means open here, which is no failure yet."""
    ended = (RequestStatus.OK, RequestStatus.STOPPED)
    return ~np.isin(traces.status, np.array(ended, dtype=np.uint8))


def not_stationary(so_far: Traces, now_ns: int, limit_ns: int, confidence: float) -> bool:
    """Whether the server provably falls behind; `limit_ns` is the TTFT that is asked for.

    All must hold: least-squares slopes of requests in flight and of TTFT over time are above 0,
    each at this one-sided level; and the later half of the requests waits longer than the limit
    in its median. TTFT is looked at up to the first request that still waits for its token: the
    waits of those behind it are not known yet, and would seem to fall.
    """
    waits, waiting = _waits(so_far, now_ns)
    inside = (so_far.planned_ns <= now_ns) & (so_far.planned_ns >= so_far.window_start_ns)
    still = so_far.planned_ns[inside & waiting]
    until = int(still.min()) if len(still) else now_ns
    known = inside & (so_far.planned_ns <= until)
    if known.sum() < LEAST_REQUESTS:
        return False
    planned, waits = so_far.planned_ns[known], waits[known]
    if np.median(waits[planned > np.median(planned)]) <= limit_ns:
        return False
    in_time, means = _means(planned, waits, so_far.window_start_ns, until)
    return _rises(in_time, means, confidence) and _rises(*_in_flight(so_far, now_ns), confidence)


def _means(moments: Int64, values: Float64, start: int, end: int) -> tuple[Float64, Float64]:
    """Ends of the slices of [start, end] that hold a value, and the mean in each."""
    edges = np.linspace(start, end, SLICES + 1)
    slice_of = np.clip(np.searchsorted(edges, moments, side="right") - 1, 0, SLICES - 1)
    found = np.unique(slice_of)
    return edges[1:][found], np.array([values[slice_of == each].mean() for each in found])


def _in_flight(traces: Traces, now_ns: int) -> tuple[Float64, Float64]:
    """Ends of the slices so far, and the requests that were open there."""
    moments = np.linspace(traces.window_start_ns, now_ns, SLICES + 1)[1:]
    ends = np.where(traces.status == RequestStatus.STOPPED, now_ns + 1, traces.end_ns)
    open_at = [np.count_nonzero((traces.planned_ns <= at) & (ends > at)) for at in moments]
    return moments, np.array(open_at, dtype=np.float64)


def _waits(traces: Traces, now_ns: int) -> tuple[Float64, NDArray[np.bool_]]:
    """float64[n], ns from the planned time to the first event, or until now; bool[n], the latter
    while it may still come."""
    until = np.full(len(traces), now_ns, dtype=np.float64)
    has_event = np.diff(traces.event_offsets) > 0
    until[has_event] = traces.event_ns[traces.event_offsets[:-1][has_event]]
    return until - traces.planned_ns, ~has_event & (traces.status == RequestStatus.STOPPED)


def _rises(x: Float64, y: Float64, confidence: float) -> bool:
    """Whether the slope's one-sided t bound is above 0, neighbours counted as correlated."""
    freedom = len(x) / _SLICES_PER_POINT - 2
    if freedom <= 0:
        return False
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    error = float(np.sqrt(residual @ residual / freedom / (centred @ centred)))
    return slope > float(special.stdtrit(freedom, confidence)) * error
