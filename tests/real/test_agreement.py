"""Advisor's load generator and vLLM's own say the same of the same requests to a real server."""

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from advisor.engine import Endpoint
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
#: A client later than a fiftieth of it says so itself.
GATE = (parse_target("ttft:p95<=2s"),)


@dataclass(frozen=True, slots=True)
class Medians:
    """Of one run, in milliseconds."""

    ttft: float
    tpot: float


def planned(salt: int) -> tuple[PlannedRequest, ...]:
    """The same load with prompts that no cache has seen."""
    return schedule(PROFILE, Plan(WINDOW, MULTIPLE, salt, lead_in_ns=0))


def by_advisor(server: Endpoint, requests: Sequence[PlannedRequest]) -> Medians:
    traces = asyncio.run(play(server, requests, PROFILE.block_tokens, WINDOW.duration_ns))
    assert judge_replay(traces, GATE) == (ReplayOutcome.VALID, "")
    ttft, tpot = (samples(metric, traces).values for metric in (Metric.TTFT, Metric.TPOT))
    return Medians(float(np.median(ttft)) / 1e6, float(np.median(tpot)) / 1e6)


def by_vllm(
    command: str, model: str, server: Endpoint, requests: Sequence[PlannedRequest], folder: Path
) -> Medians:
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
    return Medians(said["median_ttft_ms"], said["median_tpot_ms"])


def test_both_report_the_same_medians_within_the_spread_of_each_with_itself(
    vllm_command: str, model_path: str, shared_server: Endpoint, tmp_path: Path
) -> None:
    by_advisor(shared_server, planned(salt=0)[:20])  # kernels are loaded on first use
    ours, theirs = list[Medians](), list[Medians]()
    for run in range(1, RUNS + 1):
        requests = planned(salt=run)
        # in turns, and who begins takes turns too: what drifts meets both alike
        for ours_now in (True, False) if run % 2 else (False, True):
            if ours_now:
                ours.append(by_advisor(shared_server, requests))
            else:
                theirs.append(by_vllm(vllm_command, model_path, shared_server, requests, tmp_path))
    print(json.dumps({"advisor": list(map(repr, ours)), "vllm": list(map(repr, theirs))}))
    for name in ("ttft", "tpot"):
        here = [getattr(medians, name) for medians in ours]
        there = [getattr(medians, name) for medians in theirs]
        apart = abs(float(np.median(here)) - float(np.median(there)))
        assert apart <= np.ptp(here) + np.ptp(there), f"{name}: {here} and {there} ms"
