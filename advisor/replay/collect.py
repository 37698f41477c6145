"""From what the client kept per request to the columns of Traces; runs after the load."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.replay.sse import Stream, parse_stream
from advisor.terms.errors import ReplayError
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import MISSING, ClientAudit, Int64, RequestStatus, Traces


@dataclass(slots=True)
class Record:
    """One request while the load runs; stamps are perf_counter nanoseconds."""

    sent_ns: int | None = None
    #: the last byte or the failure
    end_ns: int | None = None
    #: how the exchange ended, before the stream was read
    status: RequestStatus = RequestStatus.STOPPED
    #: what the failure said
    detail: str = ""
    #: (stamp, bytes), unparsed
    reads: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Counted:
    """The counted part of a replay, half open, in ns after its start."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Load:
    """What was played and when: stamps are perf_counter nanoseconds."""

    requests: Sequence[PlannedRequest]
    records: Sequence[Record]
    #: time zero of the plan
    zero_ns: int
    #: when the replay ended; the end of every request that was still open
    stopped_ns: int
    window: Counted
    lags_ns: Sequence[int]
    #: of this process, as a share of one core
    cpu_share: float


def read_streams(load: Load) -> list[Stream]:
    """Parse every response; nothing here is timed."""
    return [parse_stream(record.reads) for record in load.records]


def check_counted(streams: Sequence[Stream]) -> None:
    """Raises ReplayError when the server did not say how many tokens its chunks carry."""
    uncounted = sum(stream.uncounted for stream in streams)
    if uncounted:
        raise ReplayError(
            f"{uncounted} chunks carry text but neither token_ids nor usage: this server does"
            " not support return_token_ids or stream_options.continuous_usage_stats"
        )


def build_traces(load: Load, streams: Sequence[Stream]) -> Traces:
    """Columns in the plan's order, times after `zero_ns`."""
    requests, records = load.requests, load.records
    counts = [len(stream.event_ns) for stream in streams]
    event_ns = [ns for stream in streams for ns in stream.event_ns]
    tokens = [count for stream in streams for count in stream.event_tokens]
    statuses = map(_status, requests, records, streams)
    return Traces(
        planned_ns=_int64([request.at_ns for request in requests]),
        sent_ns=_relative([record.sent_ns for record in records], load.zero_ns),
        end_ns=_relative([_end(record, load) for record in records], load.zero_ns),
        status=np.array(list(statuses), dtype=np.uint8),
        counted=np.array([request.counted for request in requests], dtype=np.bool_),
        input_tokens=_int64([request.input_length for request in requests]),
        prompt_tokens=_int64(
            [MISSING if s.prompt_tokens is None else s.prompt_tokens for s in streams]
        ),
        output_tokens=_int64([request.output_length for request in requests]),
        event_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        event_ns=_int64(event_ns) - load.zero_ns,
        event_tokens=np.array(tokens, dtype=np.int32),
        window_start_ns=load.window.start_ns,
        window_end_ns=load.window.end_ns,
        audit=_audit(load, streams),
    )


def _status(request: PlannedRequest, record: Record, stream: Stream) -> RequestStatus:
    if stream.error is not None:
        return RequestStatus.IN_STREAM
    if record.status is RequestStatus.OK and stream.tokens < request.output_length:
        return RequestStatus.TRUNCATED
    return record.status


def _end(record: Record, load: Load) -> int | None:
    if record.sent_ns is not None and record.end_ns is None:
        return load.stopped_ns
    return record.end_ns


def _audit(load: Load, streams: Sequence[Stream]) -> ClientAudit | None:
    """Of the counted requests, or of all while none of those was sent; None when none was."""
    sent = [
        (request.counted, record.sent_ns - load.zero_ns - request.at_ns)
        for request, record in zip(load.requests, load.records, strict=True)
        if record.sent_ns is not None
    ]
    late_ns = [late for counted, late in sent if counted] or [late for _, late in sent]
    if not late_ns:
        return None
    token_reads = sum(stream.token_reads for stream in streams)
    events = sum(len(stream.event_ns) for stream in streams)
    return ClientAudit(
        send_late_p50_ms=_percentile_ms(late_ns, 50),
        send_late_p99_ms=_percentile_ms(late_ns, 99),
        send_late_max_ms=max(late_ns) / 1e6,
        loop_lag_p99_ms=_percentile_ms(load.lags_ns, 99) if load.lags_ns else None,
        cpu_share=load.cpu_share,
        events_per_read=events / token_reads if token_reads else None,
        stamped_at="read",
    )


def _percentile_ms(values_ns: Sequence[int], percentile: float) -> float:
    # an order statistic that exists, the upper one: the client's doubt counts against it
    return float(np.percentile(values_ns, percentile, method="higher")) / 1e6


def _int64(values: Sequence[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _relative(stamps: Sequence[int | None], zero_ns: int) -> Int64:
    return _int64([MISSING if stamp is None else stamp - zero_ns for stamp in stamps])
