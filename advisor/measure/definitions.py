"""What each metric means: the one place for the formulas.

All are computed over the counted requests of one replay, followed to their end even where that
lies beyond the window. A request whose status is not OK is a miss: its TTFT, TPOT and E2E are
+inf, and every token it still owed is one infinite gap, so that a server cannot improve its
percentiles by failing the slow requests.

Only what an early stop kept from being seen is no miss: a request that was given up has waited as
long as it had by then, and its other samples are -inf, better than any limit. Such a sample can
show that a target is missed and never that one is met.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.terms.target import Metric
from advisor.terms.traces import MISSING, Int64, RequestStatus, Traces

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric in words, for reports and documentation."""

    metric: Metric
    unit: str
    formula: str
    #: where other load generators mean something else by the same name
    elsewhere: str


DEFINITIONS = (
    Definition(
        Metric.TTFT,
        "ms per request",
        "planned send time to the first event that carries a generated token, on any channel",
        "most tools start at the real send time, which hides waiting inside the client; vLLM's "
        "benchmark also ends at a chunk that has no text, such as a role-only one",
    ),
    Definition(
        Metric.ITL,
        "ms per gap, gaps of all requests pooled",
        "time between two successive token-carrying events of one request",
        "GuideLLM, AIPerf and GenAI-Perf report a mean per request under this name, in which a "
        "stall in mid-stream disappears; AIPerf calls this one inter-chunk latency",
    ),
    Definition(
        Metric.TOKEN_ITL,
        "ms per token, tokens of all requests pooled",
        "each gap divided by the tokens in its later event, counted once per such token",
        "inference-perf counts the gap once and then zeros for the event's other tokens; equal "
        "to ITL when every event carries one token",
    ),
    Definition(
        Metric.TPOT,
        "ms per token, one value per request of two tokens or more",
        "(last token event - first token event) / (tokens received - 1)",
        "GuideLLM's includes TTFT; vLLM's benchmark counts a one-token request as 0",
    ),
    Definition(
        Metric.E2E,
        "ms per request",
        "planned send time to the last token event",
        "most tools start at the real send time",
    ),
    Definition(
        Metric.ERRORS,
        "% of requests",
        "requests that did not end OK: refused, reset, timed out, HTTP error, error in the "
        "stream, or ended early",
        "most tools leave failed requests out of every statistic",
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """k samples of one metric from one replay."""

    #: float64[k], ns, +inf for what never came, -inf for what an early stop kept from being seen;
    #: for errors 1 (failed) or 0
    values: Float64
    #: int64[k], which moment of the window the sample belongs to, in [start, end)
    moment_ns: Int64
    #: int64[k], which of the counted requests (0 the first of them)
    request: Int64


def samples(metric: Metric, traces: Traces) -> Samples:
    """The samples of one metric.

    Per-request metrics belong to the moment of the planned arrival, gaps to the moment they
    ended, clamped into the window. Raises ValueError when a request's events run back in time.
    """
    match metric:
        case Metric.TTFT:
            first = _first_event(traces)
            begun = np.minimum(first - traces.planned_ns, _lasted(traces))
            return _per_request(traces, first - traces.planned_ns, begun)
        case Metric.E2E:
            return _per_request(traces, _last_event(traces) - traces.planned_ns, _lasted(traces))
        case Metric.TPOT:
            return _tpot(traces)
        case Metric.ITL:
            return _gaps(traces, per_token=False)
        case Metric.TOKEN_ITL:
            return _gaps(traces, per_token=True)
        case Metric.ERRORS:
            failed = is_failed(traces).astype(np.float64)
            return _at_arrival(traces, np.where(is_unseen(traces), -np.inf, failed))


def received_tokens(traces: Traces) -> Int64:
    """int64[n], output tokens that arrived."""
    running = np.concatenate(([0], np.cumsum(traces.event_tokens, dtype=np.int64)))
    received: Int64 = running[traces.event_offsets[1:]] - running[traces.event_offsets[:-1]]
    return received


def is_unseen(traces: Traces) -> NDArray[np.bool_]:
    """bool[n], given up by an early stop."""
    unseen: NDArray[np.bool_] = traces.status == RequestStatus.STOPPED
    return unseen


def is_failed(traces: Traces) -> NDArray[np.bool_]:
    """bool[n], ended, and not as it should."""
    failed: NDArray[np.bool_] = ~is_unseen(traces) & (traces.status != RequestStatus.OK)
    return failed


def request_of_event(traces: Traces) -> Int64:
    """int64[m], the request that each event belongs to."""
    owner: Int64 = np.repeat(np.arange(len(traces)), np.diff(traces.event_offsets))
    return owner


def _first_event(traces: Traces) -> Float64:
    return _event_at(traces, traces.event_offsets[:-1])


def _last_event(traces: Traces) -> Float64:
    return _event_at(traces, traces.event_offsets[1:] - 1)


def _event_at(traces: Traces, position: Int64) -> Float64:
    """float64[n], the time of one event per request, +inf where the request has none."""
    times = np.full(len(traces), np.inf)
    has_event = np.diff(traces.event_offsets) > 0
    times[has_event] = traces.event_ns[position[has_event]]
    return times


def _lasted(traces: Traces) -> Float64:
    """float64[n], ns from the planned time to the end or the stop, -inf for what never began."""
    lasted = (traces.end_ns - traces.planned_ns).astype(np.float64)
    return np.where((traces.sent_ns == MISSING) | (traces.end_ns == MISSING), -np.inf, lasted)


def _per_request(traces: Traces, values: Float64, unseen: Float64) -> Samples:
    """`unseen`: the least that the value of a request can be that was given up."""
    ended = np.where(is_failed(traces), np.inf, values)
    return _at_arrival(traces, np.where(is_unseen(traces), unseen, ended))


def _at_arrival(traces: Traces, values: Float64) -> Samples:
    """One sample per counted request, at its planned arrival."""
    counted = traces.counted
    moments = _into_window(traces, traces.planned_ns[counted])
    return Samples(values[counted], moments, np.arange(len(moments), dtype=np.int64))


def _tpot(traces: Traces) -> Samples:
    """A request of one token has no pace: it is left out unless it failed."""
    tokens = received_tokens(traces)
    failed, unseen = is_failed(traces), is_unseen(traces)
    span = np.where(unseen, -np.inf, np.inf)
    paced = ~failed & ~unseen & (tokens > 1)
    first, last = (event(traces)[paced] for event in (_first_event, _last_event))
    span[paced] = (last - first) / (tokens[paced] - 1)
    every = _at_arrival(traces, span)
    kept = (failed | paced | (unseen & (traces.output_tokens > 1)))[traces.counted]
    return Samples(every.values[kept], every.moment_ns[kept], every.request[kept])


def _gaps(traces: Traces, *, per_token: bool) -> Samples:
    """Finite gaps between events, and one infinite gap per token that a failed request owed;
    -inf where it was given up.

    The tokens of a request's first event have no gap before them and give no sample.
    """
    owner, rank = request_of_event(traces), np.cumsum(traces.counted) - 1
    within = (owner[1:] == owner[:-1]) & traces.counted[owner[1:]]
    gaps = np.diff(traces.event_ns)[within].astype(np.float64)
    if (gaps < 0).any():
        raise ValueError("traces: the events of a request are not in order of time")
    ended, request = traces.event_ns[1:][within], rank[owner[1:][within]]
    if per_token:
        carried = traces.event_tokens[1:][within].astype(np.int64)
        gaps, ended, request = (np.repeat(c, carried) for c in (gaps / carried, ended, request))
    owed, failed_at = _owed(traces)
    never = np.where(is_unseen(traces), -np.inf, np.inf)
    return Samples(
        np.concatenate((gaps, np.repeat(never, owed))),
        _into_window(traces, np.concatenate((ended, np.repeat(failed_at, owed)))),
        np.concatenate((request, np.repeat(rank, owed))),
    )


def _owed(traces: Traces) -> tuple[Int64, Int64]:
    """int64[n], gaps that counted requests did not come to; int64[n], when they ended.

    A first token that a failed request owed counts too, since nothing tells that it would have
    been without one; that of a request given up has no gap before it.
    """
    received = received_tokens(traces)
    seen = np.where(is_unseen(traces), np.maximum(received, 1), received)
    missing = np.maximum(traces.output_tokens - seen, 0)
    failed = traces.counted & (traces.status != RequestStatus.OK)
    ended = np.where(traces.end_ns == MISSING, traces.planned_ns, traces.end_ns)
    return np.where(failed, missing, 0), ended


def _into_window(traces: Traces, moments: Int64) -> Int64:
    clamped: Int64 = np.clip(moments, traces.window_start_ns, traces.window_end_ns - 1)
    return clamped
