"""How fast and how truthful the load generator is; prints one JSON object.

A server written in C streams one token per event, one write per event, each stream on its own
absolute grid, and stamps its writes. Both ends read one monotonic clock (Linux), so the server's
gaps are the truth that the client's gaps are held against. Costs are CPU time of the client's
process per event under a paced load that leaves events apart (`events_per_read` near 1). What
limits a client is its cost while times are taken; with the preparation before and the parsing
after the load it is reported beside. httpx and aiohttp clients run against the same server.
Lag is counted above the fastest event of a run.
"""

import asyncio
import json
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.measure.curves import curves
from advisor.replay.client import replay
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import ClientAudit, Look, RequestStatus, Traces
from benchmarks.reference.clients import itl_p99_bias_pct, over_aiohttp, over_httpx
from benchmarks.reference.server import Answer, Load, reference_server

#: events/s = streams / pace
AT_2_5K = Load(streams=50, tokens=250, pace_s=0.02)
AT_5K = Load(streams=100, tokens=250, pace_s=0.02)
AT_20K = Load(streams=400, tokens=250, pace_s=0.02)


@dataclass(frozen=True, slots=True)
class Run:
    traces: Traces
    answers: list[Answer]
    cpu_s: float

    @property
    def audit(self) -> ClientAudit:
        assert self.traces.audit is not None
        return self.traces.audit

    @property
    def cpu_us_per_event(self) -> float:
        """All told."""
        return self.cpu_s / len(self.traces.event_ns) * 1e6

    @property
    def loaded_us_per_event(self) -> float:
        """While the load ran: sends, receipts, the whole process."""
        assert self.audit.cpu_share is not None
        lasted_s = float(self.traces.end_ns.max()) / 1e9
        return self.audit.cpu_share * lasted_s / len(self.traces.event_ns) * 1e6

    @property
    def lag_p99_ms(self) -> float:
        """Prompt lengths tell the streams apart."""
        written = {answer.prompt_ids: answer.written_ns for answer in self.answers}
        lags = [
            stamps - written[int(ids)]
            for ids, stamps in zip(self.traces.input_tokens, self.seen(), strict=True)
        ]
        lag = np.concatenate(lags)
        return float(np.percentile(lag - lag.min(), 99)) / 1e6

    @property
    def itl_p99_bias_pct(self) -> float:
        return itl_p99_bias_pct([answer.written_ns for answer in self.answers], self.seen())

    def seen(self) -> list[NDArray[np.int64]]:
        return np.split(self.traces.event_ns, self.traces.event_offsets[1:-1])


def main() -> None:
    httpx, aiohttp = asyncio.run(over_httpx(AT_2_5K)), asyncio.run(over_aiohttp(AT_5K))
    at_2_5k, at_5k, at_20k = run(AT_2_5K), run(AT_5K), run(AT_20K)
    # in the middle of it all that has come is parsed and summarised, as before an early stop
    looked_at = run(AT_5K, Look(2_000_000_000, lambda so_far: not curves(so_far).requests))
    result = {
        "events_per_s_core": round(1e6 / at_20k.loaded_us_per_event),
        "ratio_to_httpx": _rounded(httpx.cpu_us_per_event / at_20k.loaded_us_per_event),
        "ratio_to_httpx_all_told": _rounded(httpx.cpu_us_per_event / at_20k.cpu_us_per_event),
        "events_per_read": _rounded(at_20k.audit.events_per_read),
        "itl_p99_bias_pct_5k": _rounded(at_5k.itl_p99_bias_pct),
        "itl_p99_bias_pct_5k_looked_at": _rounded(looked_at.itl_p99_bias_pct),
        "itl_p99_bias_pct_20k": _rounded(at_20k.itl_p99_bias_pct),
        "lag_p99_ms_5k": _rounded(at_5k.lag_p99_ms),
        "send_late_p99_ms": _rounded(at_5k.audit.send_late_p99_ms),
        "stamped_at": at_5k.audit.stamped_at,
        "stamp_late_p99_ms_20k": _rounded(at_20k.audit.stamp_late_p99_ms),
        "cpu_us_per_event": {
            "advisor_2.5k": _rounded(at_2_5k.loaded_us_per_event),
            "advisor_5k": _rounded(at_5k.loaded_us_per_event),
            "advisor_20k": _rounded(at_20k.loaded_us_per_event),
            "advisor_20k_all_told": _rounded(at_20k.cpu_us_per_event),
            "aiohttp_5k": _rounded(aiohttp.cpu_us_per_event),
            "httpx_2.5k": _rounded(httpx.cpu_us_per_event),
        },
        "itl_p99_bias_pct_others": {
            "aiohttp_5k": _rounded(aiohttp.itl_p99_bias_pct),
            "httpx_2.5k": _rounded(httpx.itl_p99_bias_pct),
        },
    }
    print(json.dumps(result))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def run(load: Load, look: Look | None = None) -> Run:
    """Play the load's requests spread over one second."""
    plan = [
        PlannedRequest(round(1e9 * i / load.streams), i + 1, load.tokens, (i,), counted=True)
        for i in range(load.streams)
    ]
    with reference_server(load) as server:
        before_s = time.process_time()
        traces = asyncio.run(
            replay(
                plan,
                server.url,
                "none",
                block_tokens=load.streams,
                vocab_size=32_000,
                window_start_ns=0,
                window_end_ns=1_000_000_000,
                request_timeout_s=60.0,
                stall_timeout_s=30.0,
                alive=lambda: True,  # it ends by itself with the last answer
                look=look,
            )
        )
        cpu_s = time.process_time() - before_s
        answers = server.answers()
    assert (traces.status == RequestStatus.OK).all(), np.bincount(traces.status)
    return Run(traces, answers, cpu_s)


if __name__ == "__main__":
    main()
