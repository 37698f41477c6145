"""From one launch the simulator tells what other settings do, about as well as launches of one
setting tell each other; and each of them is scheduled step for step as the server did."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import special

from advisor.calibrate.launch import Calibrated, fit_launch
from advisor.calibrate.relive import relive
from advisor.engine import Endpoint, VllmEngine
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
from tests.real.record_steps import FIXED, PROFILE, SECOND, observe, scheduled_alike
from tests.recordings import Recording

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
WINDOW = Window("predict", WindowRole.SEARCH, 60 * SECOND, 85 * SECOND)
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


class Calibrating:
    """One launch that is asked again between the others, so that the machine's drift meets it as
    it meets them."""

    def __init__(self, server: Endpoint) -> None:
        self._server = server
        self._since_ns = 0
        self._load: list[PlannedRequest] = []
        self._steps: list[Recording] = []
        self._traces: list[Traces] = []

    async def play(self, number: int) -> None:
        """Each load once more."""
        for load in LOADS if number % 2 else LOADS[::-1]:
            planned = requests(load, salt=100 * number + LOADS.index(load) + 1)
            recording, traces = await observe(self._server, CALIBRATED, planned)
            assert scheduled_alike(recording)
            self._steps.append(recording)
            self._traces.append(later(traces, self._since_ns))
            self._load += [replace(each, at_ns=each.at_ns + self._since_ns) for each in planned]
            self._since_ns += 2 * WINDOW.duration_ns

    def fit(self, model: str) -> Calibrated:
        first = self._steps[0]
        load = Load.of(self._load, PROFILE.block_tokens)
        logged = [step for recording in self._steps for step in recording.logged()]
        found = relive(load, first.limits(), logged)
        assert found.mismatch is None
        traces = joined(self._traces)
        return fit_launch(found, traces, configured(model, CALIBRATED), ReplayOutcome.VALID)


def later(traces: Traces, ns: int) -> Traces:
    """The same so much later."""
    return replace(
        traces,
        planned_ns=traces.planned_ns + ns,
        sent_ns=traces.sent_ns + ns,
        end_ns=traces.end_ns + ns,
        event_ns=traces.event_ns + ns,
    )


def joined(parts: Sequence[Traces]) -> Traces:
    """One after the other; what is of the whole replay is the first one's."""
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Traces)
        if isinstance(getattr(parts[0], field.name), np.ndarray)
    }
    counts = np.concatenate([np.diff(part.event_offsets) for part in parts])
    columns["event_offsets"] = np.concatenate(([0], np.cumsum(counts)))
    return replace(parts[0], **columns)


def configured(model: str, flags: dict[str, FlagValue]) -> EngineConfig:
    modelled = {name: value for name, value in FIXED.items() if name in MODELLED}
    return resolve(Setting.of(model, {**modelled, **flags}), hardware("cpu-ddr5"))


#: the rest of what is fixed has no effect on time
MODELLED = ("dtype", "enforce_eager", "max_model_len", "gpu_memory_utilization")


async def measure(engine: VllmEngine, model: str, name: str, number: int) -> dict[Cell, float]:
    """One launch of a setting under each load."""
    found = {}
    async with engine.serve(Setting.of(model, {**FIXED, **SETTINGS[name]})) as server:
        await warm_up(server)
        for load in LOADS if number % 2 else LOADS[::-1]:
            planned = requests(load, salt=10 * number + LOADS.index(load) + 1)
            recording, traces = await observe(server, SETTINGS[name], planned)
            assert scheduled_alike(recording), (name, load)
            found.update({(name, load, i): ms for i, ms in enumerate(figures_ms(traces))})
    return found


async def warm_up(server: Endpoint) -> None:
    await play(server, requests(1.0, salt=0)[:20], PROFILE.block_tokens, WINDOW.duration_ns)


async def interleaved(
    engine: VllmEngine, model: str
) -> tuple[Calibrated, dict[Cell, list[float]]]:
    """The calibrating launch from beginning to end, the others in turns."""
    measured: dict[Cell, list[float]] = {}
    async with engine.serve(Setting.of(model, {**FIXED, **CALIBRATED})) as server:
        await warm_up(server)
        calibrating = Calibrating(server)
        for number in range(1, LAUNCHES + 1):
            await calibrating.play(number)
            for name in list(SETTINGS)[:: 1 if number % 2 else -1]:
                for cell, ms in (await measure(engine, model, name, number)).items():
                    measured.setdefault(cell, []).append(ms)
    return calibrating.fit(model), measured


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
    """Pairs of settings whose intervals do not overlap, and that the prediction has in the other
    order."""
    for one, other in combinations(measured, 2):
        if one[1:] != other[1:]:
            continue
        low, high = sorted((one, other), key=lambda cell: interval(measured[cell]))
        is_apart = interval(measured[low])[1] < interval(measured[high])[0]
        if is_apart and predicted[low] >= predicted[high]:
            yield low, high


def interval(launches_ms: list[float]) -> tuple[float, float]:
    """That the mean of a setting's launches lies in with 95 % confidence, as logarithms. The least
    and the most of three would not do: of six alike, three lie above the others once in ten."""
    logs = np.log(launches_ms)
    quantile = float(special.stdtrit(len(logs) - 1, 0.975))
    half = quantile * float(logs.std(ddof=1)) / len(logs) ** 0.5
    return float(logs.mean()) - half, float(logs.mean()) + half


def test_one_launch_tells_of_other_settings(engine: VllmEngine, model_path: str) -> None:
    calibrated, measured = asyncio.run(interleaved(engine, model_path))
    print(calibrated.fit.constants, calibrated.fit.residuals_pct)
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
