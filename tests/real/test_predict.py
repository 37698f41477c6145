"""From one launch the simulator tells what other settings do, about as well as launches of one
setting tell each other."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from advisor.calibrate.launch import Calibrated, fit_launch
from advisor.calibrate.relive import relive
from advisor.engine import VllmEngine
from advisor.measure.definitions import samples
from advisor.profile.schedule import schedule
from advisor.sim import EngineConfig, hardware, resolve, simulate
from advisor.terms.flags import FlagValue
from advisor.terms.load import Load
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan, PlannedRequest, Window, WindowRole
from advisor.terms.setting import Setting
from advisor.terms.target import Metric
from advisor.terms.traces import Traces
from tests.real.load import play
from tests.real.record_steps import FIXED, PROFILE, SECOND, observe

pytestmark = [pytest.mark.real, pytest.mark.accept, pytest.mark.timeout(3_000)]

CALIBRATED: dict[str, FlagValue] = {"max_num_batched_tokens": 512}
SETTINGS: dict[str, dict[str, FlagValue]] = {
    "128": {"max_num_batched_tokens": 128},
    "2048": {"max_num_batched_tokens": 2048},
    "512, caching off": {"max_num_batched_tokens": 512, "enable_prefix_caching": False},
}
LOADS = (0.75, 1.5)
LAUNCHES = 3
SEEDS = 9
WINDOW = Window("predict", WindowRole.SEARCH, 60 * SECOND, 100 * SECOND)
FIGURES = (
    *((Metric.TTFT, percentile) for percentile in (50, 95)),
    *((Metric.ITL, percentile) for percentile in (50, 95, 99)),
)
#: (setting, load, index of the figure) -> milliseconds
Cell = tuple[str, float, int]


def requests(load: float, salt: int) -> tuple[PlannedRequest, ...]:
    return schedule(PROFILE, Plan(WINDOW, load, salt, lead_in_ns=0))


def figures_ms(traces: Traces) -> list[float]:
    return [
        float(np.percentile(samples(metric, traces).values, percentile)) / 1e6
        for metric, percentile in FIGURES
    ]


async def calibrate(engine: VllmEngine, model: str) -> Calibrated:
    """Both loads, one after the other, in one log."""
    first, then = (requests(load, salt) for salt, load in enumerate(LOADS, 1))
    later_ns = WINDOW.duration_ns + 10 * SECOND
    load = (*first, *(replace(each, at_ns=each.at_ns + later_ns) for each in then))
    flags = {**FIXED, **CALIBRATED}
    async with engine.serve(Setting.of(model, flags)) as server:
        await play(server, requests(1.0, salt=0)[:20], PROFILE.block_tokens, WINDOW.duration_ns)
        recording, traces = await observe(server, CALIBRATED, load)
    found = relive(recording.load(), recording.limits(), recording.logged())
    assert found.mismatch is None
    return fit_launch(found, traces, configured(model, CALIBRATED), ReplayOutcome.VALID)


def configured(model: str, flags: dict[str, FlagValue]) -> EngineConfig:
    modelled = {name: value for name, value in FIXED.items() if name in MODELLED}
    return resolve(Setting.of(model, {**modelled, **flags}), hardware("cpu-ddr5"))


#: the rest of what is fixed has no effect on time
MODELLED = ("dtype", "enforce_eager", "max_model_len", "gpu_memory_utilization")


async def measure(engine: VllmEngine, model: str, name: str, number: int) -> dict[Cell, float]:
    """One launch of a setting under each load."""
    found = {}
    async with engine.serve(Setting.of(model, {**FIXED, **SETTINGS[name]})) as server:
        await play(server, requests(1.0, salt=0)[:20], PROFILE.block_tokens, WINDOW.duration_ns)
        for load in LOADS if number % 2 else LOADS[::-1]:
            planned = requests(load, salt=10 * number + LOADS.index(load) + 1)
            traces = await play(server, planned, PROFILE.block_tokens, WINDOW.duration_ns)
            found.update({(name, load, i): ms for i, ms in enumerate(figures_ms(traces))})
    return found


def predict(calibrated: Calibrated, model: str) -> dict[Cell, float]:
    """The median over launches whose noise begins elsewhere."""
    found = {}
    for name, flags in SETTINGS.items():
        config = configured(model, flags)
        for load in LOADS:
            planned = Load.of(requests(load, salt=0), PROFILE.block_tokens)
            runs = [
                simulate(
                    planned,
                    config,
                    window_start_ns=0,
                    window_end_ns=WINDOW.duration_ns,
                    cost=calibrated.cost(config, seed),
                )
                for seed in range(SEEDS)
            ]
            middle = np.median([figures_ms(run.traces) for run in runs], axis=0)
            found.update({(name, load, i): float(ms) for i, ms in enumerate(middle)})
    return found


def apart(one: float, other: float) -> float:
    return abs(float(np.log(one / other)))


def disorder(
    measured: dict[Cell, list[float]], predicted: dict[Cell, float]
) -> Iterator[tuple[Cell, Cell]]:
    """Pairs of settings that all launches put in one order, and the prediction in the other."""
    for one, other in combinations(measured, 2):
        if one[1:] != other[1:]:
            continue
        low, high = sorted((one, other), key=lambda cell: max(measured[cell]))
        if max(measured[low]) < min(measured[high]) and predicted[low] >= predicted[high]:
            yield low, high


def test_one_launch_tells_of_other_settings(engine: VllmEngine, model_path: str) -> None:
    calibrated = asyncio.run(calibrate(engine, model_path))
    print(calibrated.fit.constants, calibrated.fit.residuals_pct)
    measured: dict[Cell, list[float]] = {}
    for number in range(1, LAUNCHES + 1):
        # in turns, so that what drifts meets all alike
        for name in list(SETTINGS)[:: 1 if number % 2 else -1]:
            for cell, ms in asyncio.run(measure(engine, model_path, name, number)).items():
                measured.setdefault(cell, []).append(ms)
    predicted = predict(calibrated, model_path)
    rows = [
        {
            "setting": name,
            "load": load,
            "figure": f"{FIGURES[i][0]} p{FIGURES[i][1]}",
            "measured_ms": [round(ms, 2) for ms in measured[name, load, i]],
            "predicted_ms": round(predicted[name, load, i], 2),
        }
        for name, load, i in measured
    ]
    print(json.dumps(rows))
    errors = [apart(predicted[cell], ms) for cell, each in measured.items() for ms in each]
    spread = [apart(*pair) for each in measured.values() for pair in combinations(each, 2)]
    error, difference = float(np.median(errors)), float(np.median(spread))
    print(f"median error {error:.3f}, between launches {difference:.3f}: {error / difference:.2f}")
    assert list(disorder(measured, predicted)) == []
    assert error <= 1.2 * difference
