"""From what the client kept per request to the columns of Traces; runs after the load."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from advisor.replay.clock import kernel_stamps, was_stepped
from advisor.replay.http1 import Response, decode_response
from advisor.replay.record import Record
from advisor.replay.sse import Stream, parse_stream
from advisor.terms.errors import ReplayError
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import MISSING, ClientAudit, Int64, RequestStatus, Traces

_ERROR_BODY_BYTES = 2000


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
    #: the wall clock minus perf_counter, before and after
    wall_offsets_ns: tuple[int, int]
    text_prompts: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What the responses said, in the plan's order."""

    streams: Sequence[Stream]
    statuses: Sequence[RequestStatus]
    details: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Stamps:
    """When each read of each request arrived, and by whose clock."""

    arrived_ns: Sequence[Int64]
    by: str


def read_answers(load: Load) -> Answers:
    """Decode and parse every response; nothing here is timed."""
    streams, statuses, details = [], [], []
    for request, record in zip(load.requests, load.records, strict=True):
        response = decode_response(record.reads, closed=record.status is RequestStatus.OK)
        status, detail = _ended(record, response)
        stream = parse_stream(response.body) if response.status == 200 else Stream()
        if stream.error is not None:
            status = RequestStatus.IN_STREAM
        elif status is RequestStatus.OK and stream.tokens < request.output_length:
            status = RequestStatus.TRUNCATED
        streams.append(stream)
        statuses.append(status)
        details.append(detail)
    return Answers(streams, statuses, details)


def _ended(record: Record, response: Response) -> tuple[RequestStatus, str]:
    """How the exchange went as HTTP, and what is to be said of it."""
    if record.status not in (RequestStatus.OK, RequestStatus.RESET):
        return record.status, record.detail
    if response.malformed is not None:
        return RequestStatus.HTTP, response.malformed
    if response.status is not None and response.status != 200:
        said = response.text(_ERROR_BODY_BYTES)
        return RequestStatus.HTTP, f"HTTP {response.status}: {said}"
    if response.complete:
        return RequestStatus.OK, ""
    where = "before its answer" if response.status is None else "in mid-stream"
    return RequestStatus.RESET, record.detail or f"the server closed the connection {where}"


def check_counted(streams: Sequence[Stream]) -> None:
    """Raises ReplayError when the server did not say how many tokens its chunks carry."""
    uncounted = sum(stream.uncounted for stream in streams)
    if uncounted:
        raise ReplayError(
            f"{uncounted} chunks carry text but neither token_ids nor usage: this server does"
            " not support return_token_ids or stream_options.continuous_usage_stats"
        )


def build_traces(load: Load, answers: Answers) -> Traces:
    """Columns in the plan's order, times after `zero_ns`."""
    requests, records, streams = load.requests, load.records, answers.streams
    stamps = _stamps(load)
    counts = [len(stream.event_reads) for stream in streams]
    events = [
        arrived[np.array(stream.event_reads, dtype=np.int64)]
        for arrived, stream in zip(stamps.arrived_ns, streams, strict=True)
    ]
    tokens = list(chain.from_iterable(stream.event_tokens for stream in streams))
    ends = map(_end, records, answers.statuses, stamps.arrived_ns, [load.stopped_ns] * len(counts))
    return Traces(
        planned_ns=_int64(list(map(_planned, requests, records, [load.zero_ns] * len(counts)))),
        sent_ns=_relative([record.sent_ns for record in records], load.zero_ns),
        end_ns=_relative(list(ends), load.zero_ns),
        status=np.array(answers.statuses, dtype=np.uint8),
        counted=np.array([request.counted for request in requests], dtype=np.bool_),
        input_tokens=_int64([request.input_length for request in requests]),
        prompt_tokens=_int64(
            [MISSING if s.prompt_tokens is None else s.prompt_tokens for s in streams]
        ),
        output_tokens=_int64([request.output_length for request in requests]),
        event_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        event_ns=np.concatenate([*events, np.empty(0, np.int64)]) - load.zero_ns,
        event_tokens=np.array(tokens, dtype=np.int32),
        window_start_ns=load.window.start_ns,
        window_end_ns=load.window.end_ns,
        audit=_audit(load, streams, stamps),
    )


def _stamps(load: Load) -> _Stamps:
    """The kernel's, where it gave every one of them by a clock that nobody set meanwhile.

    All or none: two ways of stamping within one stream would make gaps of their difference.
    """
    start_ns, end_ns = load.wall_offsets_ns
    if not was_stepped(start_ns, end_ns):
        by_kernel = [kernel_stamps(record.kernel, start_ns) for record in load.records]
        complete = [stamps for stamps in by_kernel if stamps is not None]
        if len(complete) == len(by_kernel):
            return _Stamps(complete, "kernel")
    return _Stamps([np.array(record.read_ns, dtype=np.int64) for record in load.records], "read")


def _planned(request: PlannedRequest, record: Record, zero_ns: int) -> int:
    """After `zero_ns`: by the plan, or when the turn before allowed it."""
    return request.at_ns if record.due_ns is None else record.due_ns - zero_ns


def _end(record: Record, status: RequestStatus, arrived_ns: Int64, stopped_ns: int) -> int | None:
    """The last byte where the server ended it, else the failure."""
    if status in _ANSWERED and len(arrived_ns):
        return int(arrived_ns[-1])
    if record.sent_ns is not None and record.end_ns is None:
        return stopped_ns
    return record.end_ns


_ANSWERED = (RequestStatus.OK, RequestStatus.TRUNCATED, RequestStatus.IN_STREAM)


def _audit(load: Load, streams: Sequence[Stream], stamps: _Stamps) -> ClientAudit | None:
    """Of the counted requests, or of all while none of those was sent; None when none was."""
    sent = [
        (request.counted, record.sent_ns - load.zero_ns - _planned(request, record, load.zero_ns))
        for request, record in zip(load.requests, load.records, strict=True)
        if record.sent_ns is not None
    ]
    late_ns = [late for counted, late in sent if counted] or [late for _, late in sent]
    if not late_ns:
        return None
    events = sum(len(stream.event_reads) for stream in streams)
    reads = sum(len(set(stream.event_reads)) for stream in streams)
    doubts_ns = _doubts(load, streams, stamps) if stamps.by == "kernel" and events else None
    return ClientAudit(
        send_late_p50_ms=_percentile_ms(late_ns, 50),
        send_late_p99_ms=_percentile_ms(late_ns, 99),
        send_late_max_ms=max(late_ns) / 1e6,
        loop_lag_p99_ms=_percentile_ms(load.lags_ns, 99) if load.lags_ns else None,
        cpu_share=load.cpu_share,
        events_per_read=events / reads if reads else None,
        stamped_at=stamps.by,
        stamp_late_p99_ms=None if doubts_ns is None else _percentile_ms(doubts_ns, 99),
        tokens_per_event=sum(stream.tokens for stream in streams) / events if events else None,
        prompt_drift_pct=_prompt_drift_pct(load, streams),
        text_prompts=load.text_prompts,
    )


def _doubts(load: Load, streams: Sequence[Stream], stamps: _Stamps) -> Int64:
    """Per token event, how much earlier than its stamp it may have arrived, at most.

    The kernel stamps the last segment of a read. An event that was not the last of its read may
    have come any time since the sockets had been looked at before; the last one has no doubt.
    """
    parts = []
    for record, stream, arrived_ns in zip(load.records, streams, stamps.arrived_ns, strict=True):
        number = np.array(stream.event_reads, dtype=np.int64)
        looked_ns = np.array(record.looked_ns, dtype=np.int64)
        shares_read = np.append(number[1:] == number[:-1], False)[: len(number)]
        open_ns = np.maximum(0, arrived_ns[number] - looked_ns[number])
        parts.append(np.where(shares_read, open_ns, 0))
    return np.concatenate(parts)


def _prompt_drift_pct(load: Load, streams: Sequence[Stream]) -> float | None:
    """How much longer the server counted all counted prompts together than they were planned."""
    told = [
        (request.input_length, stream.prompt_tokens)
        for request, stream in zip(load.requests, streams, strict=True)
        if request.counted and stream.prompt_tokens is not None
    ]
    planned = sum(length for length, _ in told)
    return 100 * (sum(seen for _, seen in told) / planned - 1) if planned else None


def _percentile_ms(values_ns: Sequence[int] | Int64, percentile: float) -> float:
    # an order statistic that exists, the upper one: the client's doubt counts against it
    return float(np.percentile(values_ns, percentile, method="higher")) / 1e6


def _int64(values: Sequence[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _relative(stamps: Sequence[int | None], zero_ns: int) -> Int64:
    return _int64([MISSING if stamp is None else stamp - zero_ns for stamp in stamps])
