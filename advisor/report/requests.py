"""One replay as a table: a row for each request, missing values None."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.measure.definitions import received_tokens
from advisor.terms.traces import MISSING, Int64, RequestStatus, Traces

#: Columns that hold a list for each request; a CSV goes without them.
EVENT_COLUMNS = ("event_ms", "event_tokens")


@dataclass(frozen=True, slots=True)
class Exported:
    """One replay, and where in the job it belongs."""

    trial: int
    phase: str
    #: from 0 within the trial
    replay: int
    window: str
    multiple: float
    outcome: str
    traces: Traces


def columns(exported: Exported) -> dict[str, list[Any]]:
    """Column -> one value a request, in order of the plan.

    Times are ms after the start of the replay, latencies count from the planned time as in every
    verdict. A request that failed has no latency; what it did receive is in the event columns.
    One that an early stop gave up has the TTFT that it came to, as in every verdict, and no other.
    """
    traces = exported.traces
    n, received = len(traces), received_tokens(traces)
    first, last = _edges_ms(traces)
    planned = traces.planned_ns / 1e6
    ok = traces.status == RequestStatus.OK
    begun = (ok | (traces.status == RequestStatus.STOPPED)) & (received > 0)
    paced = ok & (received > 1)
    pace = (last - first) / np.maximum(received - 1, 1)
    return {
        "trial": [exported.trial] * n,
        "phase": [exported.phase] * n,
        "replay": [exported.replay] * n,
        "window": [exported.window] * n,
        "multiple": [exported.multiple] * n,
        "outcome": [exported.outcome] * n,
        "request": list(range(n)),
        "counted": traces.counted.tolist(),
        "status": [RequestStatus(status).name.lower() for status in traces.status],
        "planned_ms": planned.tolist(),
        "sent_ms": _known_ms(traces.sent_ns),
        "end_ms": _known_ms(traces.end_ns),
        "input_tokens": traces.input_tokens.tolist(),
        "prompt_tokens": _known(traces.prompt_tokens),
        "output_tokens": traces.output_tokens.tolist(),
        "received_tokens": received.tolist(),
        "ttft_ms": _where(begun, first - planned),
        "tpot_ms": _where(paced, pace),
        "e2e_ms": _where(ok & (received > 0), last - planned),
        "event_ms": [events.tolist() for events in _split(traces, traces.event_ns / 1e6)],
        "event_tokens": [tokens.tolist() for tokens in _split(traces, traces.event_tokens)],
    }


def rows(exported: Exported, *, events: bool) -> Iterator[dict[str, Any]]:
    """The same table row by row, with the event columns or without."""
    table = columns(exported)
    names = [name for name in table if events or name not in EVENT_COLUMNS]
    for values in zip(*(table[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def _edges_ms(traces: Traces) -> tuple[Any, Any]:
    """float64[n] each: first and last event, NaN where a request has none."""
    first, last = np.full(len(traces), np.nan), np.full(len(traces), np.nan)
    some = np.diff(traces.event_offsets) > 0
    first[some] = traces.event_ns[traces.event_offsets[:-1][some]] / 1e6
    last[some] = traces.event_ns[traces.event_offsets[1:][some] - 1] / 1e6
    return first, last


def _split(traces: Traces, values: Any) -> list[Any]:
    return np.split(values, traces.event_offsets[1:-1]) if len(traces) else []


def _where(known: Any, values: Any) -> list[float | None]:
    pairs = zip(known, values.tolist(), strict=True)
    return [value if is_known else None for is_known, value in pairs]


def _known(column: Int64) -> list[int | None]:
    return [None if value == MISSING else value for value in column.tolist()]


def _known_ms(column: Int64) -> list[float | None]:
    return [None if value == MISSING else value / 1e6 for value in column.tolist()]
