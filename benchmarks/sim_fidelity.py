"""The simulator against recorded vLLM runs: calibrated on one half of each, judged on the other.

    python benchmarks/sim_fidelity.py [FOLDER]

prints one JSON object. FOLDER holds runs as casys-kaist/LLMServingSim publishes them under
bench/examples (MIT): NAME/requests.jsonl and NAME/timeseries.csv. Errors are simulated against
recorded, in per cent; running_mae and waiting_mae are mean absolute errors against the recorded
curve, as a share of its mean, in per cent.
"""

import csv
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.calibrate.constants import Constants
from advisor.calibrate.runs import Run, fit_runs
from advisor.sim import EngineConfig, hardware, resolve, simulate
from advisor.terms.flags import FlagValue
from advisor.terms.load import Load
from advisor.terms.setting import Setting

_FOLDER = Path(__file__).parents[1].parent / "shared/data/vllm-runs"
_MS = 1_000_000
_STATISTICS = ("mean", "p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was launched; vLLM 0.19.0 with utilisation 0.9."""

    name: str
    device: str
    flags: dict[str, FlagValue]
    #: where the server's own figure is known
    num_blocks: int | None

    def config(self) -> EngineConfig:
        flags = {"max_num_batched_tokens": 2048, "gpu_memory_utilization": 0.9, **self.flags}
        config = resolve(Setting.of("llama-3.1-8b", flags), hardware(self.device))
        if self.num_blocks is None:
            return config
        return replace(config, memory=replace(config.memory, num_blocks=self.num_blocks))


RUNS = (
    Recorded(
        "rtx4090-llama-3.1-8b", "rtx-4090", {"max_model_len": 32768, "max_num_seqs": 256}, 2588
    ),
    Recorded("rtxpro6000-llama-3.1-8b", "rtx-pro-6000", {"max_num_seqs": 128}, None),
)


def read(path: Path, config: EngineConfig) -> Run:
    """Stamps of the engine itself; the first half of the requests may be looked at."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows.sort(key=lambda row: row["queued_ts"])
    start = rows[0]["queued_ts"]

    def stamps(name: str) -> NDArray[np.int64]:
        return np.array([round((row[name] - start) * 1e9) for row in rows], dtype=np.int64)

    at, offsets = stamps("queued_ts"), np.zeros(len(rows) + 1, dtype=np.int64)
    prompt, output = (
        np.array([row[name] for row in rows], dtype=np.int64)
        for name in ("input_toks", "output_toks")
    )
    load = Load(at, prompt, output, at >= 0, offsets, offsets[:0], 0, 16)
    half = np.arange(len(rows)) < len(rows) // 2
    return Run(config, load, stamps("first_token_ts"), stamps("last_token_ts"), half, True)


def errors_pct(run: Run, constants: Constants, judged: NDArray[np.bool_]) -> dict[str, float]:
    first, last = run.times(constants)
    at, gaps = run.load.at_ns, run.load.output_length - 1
    pairs = {
        "ttft": (first - at, run.first_ns - at),
        "tpot": ((last - first) / gaps, (run.last_ns - run.first_ns) / gaps),
    }
    return {
        f"{metric}_{statistic}_err_pct": round(
            100 * (of(simulated[judged], statistic) / of(recorded[judged], statistic) - 1), 2
        )
        for metric, (simulated, recorded) in pairs.items()
        for statistic in _STATISTICS
    }


def of(samples: NDArray[Any], statistic: str) -> float:
    if statistic == "mean":
        return float(samples.mean())
    return float(np.percentile(samples, int(statistic[1:])))


def curves(run: Run, constants: Constants, path: Path) -> dict[str, float]:
    """Against the recorded gauges, one reading a second."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    timeline = simulate(
        run.load, run.config, window_start_ns=0, window_end_ns=1, cost=run.cost(constants)
    ).timeline
    moments = np.array([float(row["t"]) * 1e9 for row in rows])
    steps = np.minimum(np.searchsorted(timeline.step_end_ns, moments), len(timeline) - 1)
    over = moments > timeline.step_end_ns[-1]
    found = {}
    for name in ("running", "waiting"):
        recorded = np.array([float(row[name]) for row in rows])
        simulated = np.where(over, 0, getattr(timeline, name)[steps])
        mae = float(np.abs(simulated - recorded).mean())
        found[f"{name}_mae"] = round(100 * mae / float(recorded.mean()), 2)
    return found


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _FOLDER
    runs = {each.name: read(folder / each.name / "requests.jsonl", each.config()) for each in RUNS}
    fits = {name: fit_runs([run]) for name, run in runs.items()}
    rows = []
    for name, run in runs.items():
        other = next(each for each in runs if each != name)
        constants = fits[name].constants
        everything = np.ones(len(run.load), dtype=np.bool_)
        rows.append(
            {
                "name": name,
                **errors_pct(run, constants, ~run.used),
                **curves(run, constants, folder / name / "timeseries.csv"),
                "fitted_half": errors_pct(run, constants, run.used),
                "data_sheet": errors_pct(run, Constants(), everything),
                "carried_from": other,
                "carried": errors_pct(run, fits[other].constants, everything),
                "constants": {
                    each: [
                        round(getattr(constants, each), 3),
                        *(round(end, 3) for end in fits[name].interval(each)),
                    ]
                    for each in fits[name].free.names
                },
                "residuals_pct": fits[name].residuals_pct,
            }
        )
    print(json.dumps({"runs": rows}))


if __name__ == "__main__":
    main()
