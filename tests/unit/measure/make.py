"""Traces made by hand: each request as (planned ms, event times ms), one token an event."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.terms.traces import MISSING, RequestStatus, Traces

MS = 1_000_000


@dataclass(frozen=True)
class Req:
    """One request; times in ms after the start of the replay."""

    planned: float
    events: Sequence[float] = ()
    #: tokens of each event, 1 each when empty
    tokens: Sequence[int] = ()
    status: RequestStatus = RequestStatus.OK
    #: tokens planned; as received when None
    output: int | None = None
    counted: bool = True
    sent: float | None = None
    input_tokens: int = 10
    prompt_tokens: int = MISSING
    carried: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "carried", self.tokens or [1] * len(self.events))


def traces(requests: Sequence[Req], start: float = 0, end: float = 1000) -> Traces:
    """Columns of the requests, window in ms."""

    def ns(times: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.round(np.array(times, dtype=np.float64) * MS).astype(np.int64)

    def ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    ends = [r.events[-1] if r.events else r.planned for r in requests]
    outputs = [sum(r.carried) if r.output is None else r.output for r in requests]
    return Traces(
        planned_ns=ns([r.planned for r in requests]),
        sent_ns=ns([r.planned if r.sent is None else r.sent for r in requests]),
        end_ns=ns(ends),
        status=np.array([r.status for r in requests], dtype=np.uint8),
        counted=np.array([r.counted for r in requests], dtype=np.bool_),
        input_tokens=ints([r.input_tokens for r in requests]),
        prompt_tokens=ints([r.prompt_tokens for r in requests]),
        output_tokens=ints(outputs),
        event_offsets=ints([0, *np.cumsum([len(r.events) for r in requests])]),
        event_ns=ns([t for r in requests for t in r.events]),
        event_tokens=np.array([k for r in requests for k in r.carried], dtype=np.int32),
        window_start_ns=round(start * MS),
        window_end_ns=round(end * MS),
    )


def steady(
    n: int,
    ttft_ms: Sequence[float],
    gap_ms: float = 10,
    tokens: int = 5,
    fail_every: int | None = None,
) -> Traces:
    """n requests 100 ms apart, TTFTs cycle through the list; every so-manieth is reset at once."""
    requests = []
    for i in range(n):
        at = i * 100.0
        first = at + ttft_ms[i % len(ttft_ms)]
        if fail_every and i % fail_every == 0:
            requests.append(Req(at, status=RequestStatus.RESET, output=tokens))
        else:
            requests.append(Req(at, [first + k * gap_ms for k in range(tokens)]))
    return traces(requests, 0, n * 100.0)
