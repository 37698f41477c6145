"""What happened to every request of one replay, in columns."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

#: In integer columns: not known, never happened. It is never 0.
MISSING = -1

Int64 = NDArray[np.int64]


class RequestStatus(IntEnum):
    """How a request ended; everything but OK and STOPPED is a miss of every target."""

    OK = 0
    CONNECT = 1
    RESET = 2
    TIMEOUT = 3
    HTTP = 4
    #: an error event inside the stream
    IN_STREAM = 5
    #: the stream ended before the planned output length
    TRUNCATED = 6
    #: the replay was stopped while the request was open or still to be sent: what would have
    #: become of it is not known
    STOPPED = 7


@dataclass(frozen=True, slots=True)
class ClientAudit:
    """How well the load generator itself kept up; None where a client did not measure it."""

    send_late_p50_ms: float
    send_late_p99_ms: float
    send_late_max_ms: float
    loop_lag_p99_ms: float | None
    cpu_share: float | None
    events_per_read: float | None
    #: where times were taken: kernel, read or virtual
    stamped_at: str
    #: kernel stamps only: at most this much earlier did 99 % of the token events arrive
    stamp_late_p99_ms: float | None = None
    tokens_per_event: float | None = None
    #: the counted prompts' tokens as the server counted them, above the plan's
    prompt_drift_pct: float | None = None
    #: prompts went as text, so their lengths could only be near the plan's
    text_prompts: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """n requests and m token-carrying events; times in ns after the start of the replay."""

    #: int64[n], when each request should be sent; latencies count from here
    planned_ns: Int64
    #: int64[n], when it was, or MISSING
    sent_ns: Int64
    #: int64[n], the last byte or the failure, or MISSING
    end_ns: Int64
    #: uint8[n], RequestStatus
    status: NDArray[np.uint8]
    #: bool[n], False for the lead-in
    counted: NDArray[np.bool_]
    #: int64[n], prompt tokens planned, and as the server counted them (or MISSING)
    input_tokens: Int64
    prompt_tokens: Int64
    #: int64[n], output tokens planned
    output_tokens: Int64
    #: int64[n+1]: the events of request i are event_offsets[i] up to event_offsets[i+1]
    event_offsets: Int64
    #: int64[m], when the event arrived
    event_ns: Int64
    #: int32[m], how many tokens it carried, >= 1
    event_tokens: NDArray[np.int32]
    #: the counted part of the replay: arrivals from start up to end
    window_start_ns: int
    window_end_ns: int
    audit: ClientAudit | None = None

    def __len__(self) -> int:
        return len(self.planned_ns)


@dataclass(frozen=True, slots=True)
class Look:
    """When a replay that is still played is looked at, once, and what may end it there."""

    #: ns after the end of the window
    after_ns: int
    #: whether what has happened so far is all that the replay is played for
    settled: Callable[[Traces], bool]
