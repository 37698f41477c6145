"""Advisor, `vllm bench serve` and guidellm against one server whose times are known.

Prints one JSON object: for each load, tool and metric what the tool reported beside what the
server's own stamps say of that very run. The server streams at 20 ms a token and holds every 25th
token of a stream back for 60 ms, so the true ITL p99 is that of a stall. TTFT is true from the
arrival of the request at the server to the writing of its first token: what a client adds on both
ways is its error. guidellm's ITL is a mean per request by its own definition; the row shows what
a reader of its p99 is told.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from advisor.measure.definitions import samples
from advisor.replay.client import replay
from advisor.terms.profile import PlannedRequest
from advisor.terms.target import Metric
from advisor.terms.traces import RequestStatus
from benchmarks.reference import peers
from benchmarks.reference.peers import Reported
from benchmarks.reference.server import Answer, Load, reference_server

PACE_S, STALL_S, STALL_EVERY, FIRST_S, TOKENS = 0.02, 0.06, 25, 0.05, 100
#: requests/s; about 2.2 s a request at 45 events/s
RATES = {"1k": 10.0, "5k": 50.0}
LASTS_S = 4.0
#: of a tool that gives a request up
TRIES = 3
Tool = Callable[[str, Load, float, Path], Reported]


def main() -> None:
    lacking = peers.missing()
    if lacking is not None:
        sys.exit(lacking)
    tools = {"advisor": advisor, "vllm bench serve": peers.vllm_bench, "guidellm": peers.guidellm}
    rows: list[dict[str, Any]] = []
    for events, rate in RATES.items():
        load = Load(round(rate * LASTS_S), TOKENS, PACE_S, FIRST_S, STALL_EVERY, STALL_S)
        for name, tool in tools.items():
            rows += _rows(name, events, *_measured(name, tool, load, rate))
    print(json.dumps({"cores": os.cpu_count(), "rows": rows, "best": _best(rows)}))


def _measured(name: str, tool: Tool, load: Load, rate: float) -> tuple[Reported, Reported]:
    """What it says and what is true, of the first run in which it saw every request through."""
    for _ in range(TRIES):
        with (
            tempfile.TemporaryDirectory() as folder,
            reference_server(load, ends_when_told=True) as server,
        ):
            try:
                return tool(server.url, load, rate, Path(folder)), _true(server.answers(), load)
            except peers.Unanswered as exc:
                print(f"{name} at {rate:g} requests/s: {exc}", file=sys.stderr, flush=True)
    sys.exit(f"{name} left requests unanswered in {TRIES} runs")


def advisor(url: str, load: Load, rate: float, _: Path) -> Reported:
    """Our own, by its own definitions."""
    plan = [
        PlannedRequest(round(1e9 * i / rate), peers.PROMPT_TOKENS, load.tokens, (i,), counted=True)
        for i in range(load.streams)
    ]
    traces = asyncio.run(
        replay(
            plan,
            url,
            "none",
            block_tokens=peers.PROMPT_TOKENS,
            vocab_size=8_000,
            window_start_ns=0,
            window_end_ns=round(LASTS_S * 1e9),
            request_timeout_s=60.0,
            stall_timeout_s=30.0,
            alive=lambda: True,
        )
    )
    peers.check(int((traces.status == RequestStatus.OK).sum()), load)
    ttft, itl = (samples(metric, traces).values for metric in (Metric.TTFT, Metric.ITL))
    return Reported(float(np.percentile(ttft, 95)) / 1e6, float(np.percentile(itl, 99)) / 1e6)


def _true(answers: list[Answer], load: Load) -> Reported:
    """Of the load's own requests: what a tool asked before them comes first."""
    counted = sorted(answers, key=lambda answer: answer.arrived_ns)[-load.streams :]
    ttft = [answer.written_ns[0] - answer.arrived_ns for answer in counted]
    itl = np.concatenate([np.diff(answer.written_ns) for answer in counted])
    return Reported(float(np.percentile(ttft, 95)) / 1e6, float(np.percentile(itl, 99)) / 1e6)


def _rows(tool: str, events: str, reported: Reported, true: Reported) -> list[dict[str, Any]]:
    pairs = {
        "ttft_p95": (true.ttft_p95_ms, reported.ttft_p95_ms),
        "itl_p99": (true.itl_p99_ms, reported.itl_p99_ms),
    }
    return [
        {
            "tool": tool,
            "events_per_s": events,
            "metric": metric,
            "true_ms": round(known, 3),
            "reported_ms": round(said, 3),
            "error_pct": round(100 * (said / known - 1), 3),
        }
        for metric, (known, said) in pairs.items()
    ]


def _best(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Per load and metric, the tool with the smallest error."""
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        case = f"{row['metric']} at {row['events_per_s']} events/s"
        if case not in best or abs(row["error_pct"]) < abs(best[case]["error_pct"]):
            best[case] = row
    return {case: row["tool"] for case, row in best.items()}


if __name__ == "__main__":
    main()
