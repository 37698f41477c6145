"""Steps a second of the simulator, against its plain-Python form in the same run.

    python benchmarks/sim_speed.py [AZURE_CSV]

prints one JSON object. Without Azure's public conversation trace (columns TIMESTAMP,
ContextTokens, GeneratedTokens) at the given place a load of the same rate and mean lengths is
drawn; `azure_source` says which. `recommend` is a whole job over the default Space by the command
line, its profile rehearsed for the first time; `cpu_s` is what it would take on an idle core.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np

from advisor.sim import EngineConfig, SimRun, hardware, resolve, simulate
from advisor.terms.load import Load
from advisor.terms.setting import Setting

_SECOND = 10**9
_AZURE = Path(__file__).parents[1].parent / "shared/data/AzureLLMInferenceTrace_conv.csv"


def columns(at_ns: list[int], prompt: list[int], output: list[int]) -> Load:
    """A load whose prompts share nothing."""
    zeros = np.zeros(len(at_ns) + 1, dtype=np.int64)
    at, inputs, outputs = (np.array(each, dtype=np.int64) for each in (at_ns, prompt, output))
    return Load(at, inputs, outputs, at >= 0, zeros, zeros[:0], 0, 512)


def crowd(running: int, output: int) -> Load:
    """So many requests at once, each of 100 tokens and so many more."""
    return columns([0] * running, [100] * running, [output] * running)


def azure(path: Path) -> tuple[Load, str]:
    """The first 600 s of the conversation trace."""
    if not path.is_file():
        rng = np.random.default_rng(1)
        at = np.cumsum(rng.exponential(_SECOND * 600 / 2867, 2867)).astype(np.int64)
        prompt, output = rng.geometric(1 / 1147, 2867), rng.geometric(1 / 260, 2867)
        return columns(at.tolist(), prompt.tolist(), output.tolist()), "synthesised"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    at_ns = [round((each - moments[0]).total_seconds() * _SECOND) for each in moments]
    last = sum(each < 600 * _SECOND for each in at_ns)
    tokens = [
        [int(row[name]) for row in rows[:last]] for name in ("ContextTokens", "GeneratedTokens")
    ]
    return columns(at_ns[:last], *tokens), "AzureLLMInferenceTrace_conv"


def best_s(run: Callable[[], SimRun], times: int = 5) -> tuple[float, int]:
    """CPU seconds of the fastest of a few runs, and its steps: others use the machine too."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        played = run()
        spent.append(time.process_time() - start)
    return min(spent), len(played.timeline)


def recommend(launches: int = 100) -> dict[str, float]:
    """A search over so many settings, with headroom for each, and its confirmation."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *("recommend", "--engine", "sim", "--json", "--launches", str(launches)),
            *("--model", "llama-3.1-8b", "--hardware", "h100-sxm"),
            *("--profile", "chat-and-documents", "--db", f"sqlite:///{folder}/ledger.db"),
            *("--target", "ttft:p95<=1500ms", "--target", "itl:p99<=40ms"),
        ]
        argv = [sys.executable, "-P", "-c", "from advisor.cli import main; main()", *words]
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=False)
        spent_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(ended.stdout)
    return {
        "settings": found["launches"]["search"],
        "replays": found["replays"],
        "seconds": round(spent_s, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _AZURE
    config = resolve(
        Setting.of("llama-3.1-8b", {"max_model_len": 32768}), hardware("a100-80gb-sxm")
    )

    def play(load: Load, compiled: bool = True, setting: EngineConfig = config) -> SimRun:
        return simulate(
            load, setting, window_start_ns=0, window_end_ns=600 * _SECOND, compiled=compiled
        )

    roomy = resolve(Setting.of("llama-3.1-8b", {"max_model_len": 32768}), hardware("h200"))
    play(crowd(1, 10))
    rates, batches = {}, (16, 64, 256)
    for running in batches:
        spent, steps = best_s(lambda n=running: play(crowd(n, 2000), setting=roomy))  # type: ignore[misc]
        rates[running] = spent / steps
    long_s, long_steps = best_s(lambda: play(crowd(64, 8000), setting=roomy))
    plain_s, plain_steps = best_s(lambda: play(crowd(64, 500), compiled=False), 2)
    load, source = azure(path)
    azure_s, azure_steps = best_s(lambda: play(load), 9)
    print(
        json.dumps(
            {
                "steps_per_s": round(1 / rates[64]),
                "ratio_to_python": round(plain_s / plain_steps / rates[64], 1),
                "azure_600s_ms": round(azure_s * 1e3, 1),
                "evals_per_s_core": round(1 / azure_s, 1),
                "azure_source": source,
                "azure_requests": len(load),
                "azure_steps": azure_steps,
                "step_ns_by_running": {n: round(rates[n] * 1e9) for n in batches},
                "four_times_as_long_ratio": round(long_s / long_steps / rates[64], 2),
                "recommend": recommend(),
                "load_average": os.getloadavg()[0],
            }
        )
    )


if __name__ == "__main__":
    main()
