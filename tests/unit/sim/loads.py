"""Loads and configurations that the simulator's tests share."""

import numpy as np

from advisor.sim import EngineConfig, SimRun, hardware, resolve, simulate
from advisor.terms.flags import FlagValue
from advisor.terms.load import Load
from advisor.terms.profile import PlannedRequest
from advisor.terms.setting import Setting

SECOND = 10**9


def engine(
    device: str = "h100-sxm", model: str = "llama-3.1-8b", **flags: FlagValue
) -> EngineConfig:
    """A configuration with room for long prompts on every GPU unless said otherwise."""
    return resolve(Setting.of(model, {"max_model_len": 8192, **flags}), hardware(device))


def at_once(count: int, prompt: int, output: int) -> list[PlannedRequest]:
    """All at time 0, nothing shared."""
    return [PlannedRequest(0, prompt, output, (), True) for _ in range(count)]


def poisson(rate: float, count: int, prompt: int, output: int) -> list[PlannedRequest]:
    """Lengths vary by half in both directions; fixed seed."""
    rng = np.random.default_rng(7)
    times = np.cumsum(rng.exponential(SECOND / rate, count)).astype(np.int64)
    prompts = rng.integers(prompt // 2, prompt * 3 // 2, count)
    outputs = rng.integers(output // 2, output * 3 // 2, count)
    return [
        PlannedRequest(int(at), int(a), int(b), (), True)
        for at, a, b in zip(times, prompts, outputs, strict=True)
    ]


def play(requests: list[PlannedRequest], config: EngineConfig, compiled: bool = True) -> SimRun:
    return simulate(
        Load.of(requests, 512),
        config,
        window_start_ns=0,
        window_end_ns=60 * SECOND,
        compiled=compiled,
    )


def ttft_ms(run: SimRun) -> np.typing.NDArray[np.float64]:
    """Of requests that got a token."""
    traces = run.traces
    first = traces.event_offsets[:-1]
    served = np.diff(traces.event_offsets) > 0
    return (traces.event_ns[first[served]] - traces.planned_ns[served]) / 1e6


def gaps_ms(run: SimRun) -> np.typing.NDArray[np.float64]:
    """All gaps between events of one request."""
    traces = run.traces
    gaps = np.diff(traces.event_ns)
    between = np.ones(len(gaps), dtype=bool)
    between[traces.event_offsets[1:-1] - 1] = False
    return gaps[between] / 1e6
