"""Advisor's load generator and vLLM's own say the same of the same requests to a real server."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from advisor.engine import Endpoint, FactsWatch
from advisor.measure.definitions import samples
from advisor.profile.load import load_profile
from advisor.profile.schedule import schedule
from advisor.profile.shipped import resolve
from advisor.replay.audit import judge_replay
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan, PlannedRequest, Window, WindowRole
from advisor.terms.target import Metric, parse_target
from tests.real.load import play

pytestmark = [pytest.mark.real, pytest.mark.accept, pytest.mark.timeout(1_800)]

PROFILE = load_profile(resolve("tiny-cpu"))
#: The recording's load at half its rate: queueing is a little of each latency, so that what two
#: runs differ by is the machine's noise and not that of a server on the brink.
WINDOW = Window("agreement", WindowRole.SEARCH, 60_000_000_000, 105_000_000_000)
MULTIPLE = 0.5
RUNS = 3
#: As a share: three runs may happen to lie closer together than a tool is with itself.
LEAST_SPREAD = 0.02
#: A client later than a fiftieth of it says so itself.
GATE = (parse_target("ttft:p95<=2s"),)


@dataclass(frozen=True, slots=True)
class Medians:
    """Of one run."""

    ttft_ms: float
    tpot_ms: float
    #: TPOT over the mean ITL that the server itself counted in that run. On two cores a client
    #: that works more or less makes the server slower or faster, by a tenth at times: that is
    #: no error of the client that tells it.
    tpot: float


def planned(salt: int) -> tuple[PlannedRequest, ...]:
    """The same load with prompts that no cache has seen."""
    return schedule(PROFILE, Plan(WINDOW, MULTIPLE, salt, lead_in_ns=0))


def counted(server: Endpoint, play_all: Callable[[], tuple[float, float]]) -> Medians:
    """What a tool tells, beside what the server counted meanwhile."""
    before_s, before = asyncio.run(itl_of(server))
    ttft_ms, tpot_ms = play_all()
    after_s, after = asyncio.run(itl_of(server))
    return Medians(ttft_ms, tpot_ms, tpot_ms / (1e3 * (after_s - before_s) / (after - before)))


async def itl_of(server: Endpoint) -> tuple[float, float]:
    """Sum in seconds and count of all its gaps so far."""
    async with FactsWatch(server.base_url) as watch:
        facts = await watch.facts()
    assert facts.itl_s_sum is not None
    assert facts.itl_count is not None
    return facts.itl_s_sum, facts.itl_count


def by_advisor(server: Endpoint, requests: Sequence[PlannedRequest]) -> tuple[float, float]:
    """Medians of TTFT and TPOT, in ms."""
    traces = asyncio.run(play(server, requests, PROFILE.block_tokens, WINDOW.duration_ns))
    assert judge_replay(traces, GATE) == (ReplayOutcome.VALID, "")
    ttft, tpot = (samples(metric, traces).values for metric in (Metric.TTFT, Metric.TPOT))
    return float(np.median(ttft)) / 1e6, float(np.median(tpot)) / 1e6


def by_vllm(
    command: str, model: str, server: Endpoint, requests: Sequence[PlannedRequest], folder: Path
) -> tuple[float, float]:
    """`vllm bench serve` takes a trace with its times and block ids, and sends token ids too."""
    trace, result = folder / "trace.jsonl", folder / "result.json"
    rows = [
        {
            "timestamp": request.at_ns / 1e9,
            "input_length": request.input_length,
            "output_length": request.output_length,
            "hash_ids": list(request.block_ids),
        }
        for request in requests
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {
        "backend": "openai",
        "base-url": server.base_url,
        "model": server.served_model_name,
        "tokenizer": model,
        "dataset-name": "timed_trace",
        "dataset-path": trace,
        "timed-trace-chunk-hash-size": PROFILE.block_tokens,
        "num-prompts": len(requests),
        "percentile-metrics": "ttft,tpot",
        "result-dir": folder,
        "result-filename": result.name,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        [command, "bench", "serve", *words, "--save-result", "--disable-tqdm"],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(result.read_text())
    assert said["completed"] == len(requests)
    asked = sum(request.input_length for request in requests)
    assert (said["total_input_tokens"], said["total_output_tokens"]) == (
        asked,
        sum(request.output_length for request in requests),
    )
    return said["median_ttft_ms"], said["median_tpot_ms"]


def test_both_report_the_same_medians_within_the_spread_of_each_with_itself(
    vllm_command: str, model_path: str, shared_server: Endpoint, tmp_path: Path
) -> None:
    by_us = partial(by_advisor, shared_server)
    bench = partial(by_vllm, vllm_command, model_path, shared_server, folder=tmp_path)
    by_advisor(shared_server, planned(salt=0)[:20])  # kernels are loaded on first use
    ours, theirs = list[Medians](), list[Medians]()
    for run in range(1, RUNS + 1):
        requests = planned(salt=run)
        # in turns, and who begins takes turns too: what drifts meets both alike
        for ours_now in (True, False) if run % 2 else (False, True):
            tool, told = (by_us, ours) if ours_now else (bench, theirs)
            told.append(counted(shared_server, partial(tool, requests)))
    print(json.dumps({"advisor": list(map(repr, ours)), "vllm": list(map(repr, theirs))}))
    for name in ("ttft_ms", "tpot"):
        here = [getattr(medians, name) for medians in ours]
        there = [getattr(medians, name) for medians in theirs]
        apart = abs(float(np.median(here)) - float(np.median(there)))
        spread = max(float(np.ptp(here) + np.ptp(there)), LEAST_SPREAD * float(np.median(here)))
        assert apart <= spread, f"{name}: {here} and {there}"
