"""Against two recorded vLLM 0.19.0 runs (casys-kaist/LLMServingSim, bench/examples, MIT)."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.sim import EngineConfig
from advisor.terms.profile import PlannedRequest
from tests.unit.sim.loads import engine, play, ttft_ms

RUNS = Path(__file__).parents[3].resolve().parent / "shared/data/vllm-runs"


def rtx_4090() -> EngineConfig:
    config = engine(
        "rtx-4090",
        max_model_len=32768,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        gpu_memory_utilization=0.9,
    )
    # The run's own pool: that release did not subtract CUDA graphs.
    return replace(config, memory=replace(config.memory, num_blocks=2588))


def rtx_pro_6000() -> EngineConfig:
    return engine(
        "rtx-pro-6000",
        max_model_len=131072,
        max_num_seqs=128,
        max_num_batched_tokens=2048,
        gpu_memory_utilization=0.9,
    )


@pytest.mark.parametrize(
    ("folder", "config"),
    [("rtx4090-llama-3.1-8b", rtx_4090()), ("rtxpro6000-llama-3.1-8b", rtx_pro_6000())],
)
def test_means_are_near_the_recorded_ones(folder: str, config: EngineConfig) -> None:
    path = RUNS / folder / "requests.jsonl"
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} is missing")
        pytest.skip(f"no recorded runs at {RUNS}")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    begin = min(row["arrival_time"] for row in rows)
    load = [
        PlannedRequest(
            round((row["arrival_time"] - begin) * 1e9),
            row["input_toks"],
            row["output_toks"],
            (),
            True,
        )
        for row in rows
    ]
    run = play(load, config)
    traces = run.traces
    first = traces.event_ns[traces.event_offsets[:-1]]
    tpot = (traces.end_ns - first) / 1e6 / (traces.output_tokens - 1)
    recorded_tpot = [
        (row["last_token_ts"] - row["first_token_ts"]) * 1e3 / (row["output_toks"] - 1)
        for row in rows
    ]
    recorded_ttft = [(row["first_token_ts"] - row["queued_ts"]) * 1e3 for row in rows]
    assert tpot.mean() == pytest.approx(np.mean(recorded_tpot), rel=0.1)
    # Deep in overload a small error in throughput becomes a large one in waiting.
    assert ttft_ms(run).mean() == pytest.approx(np.mean(recorded_ttft), rel=0.25)
