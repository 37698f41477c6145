"""One simulated replay of a whole profile, outside any job."""

from dataclasses import dataclass

from advisor.measure.curves import curves
from advisor.measure.measure import measure
from advisor.profile.columns import Columns
from advisor.profile.load import load_profile
from advisor.profile.shipped import resolve as resolve_profile
from advisor.sim import EngineConfig, SimRun, hardware, resolve, simulate
from advisor.terms.errors import InputError, LaunchFailed
from advisor.terms.flags import parse_flags
from advisor.terms.measurement import Measurement
from advisor.terms.profile import Plan, Window, WindowRole
from advisor.terms.setting import Setting

#: Of the bounds of targets; none are judged here.
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """One replay with what it was of."""

    setting: Setting
    config: EngineConfig
    run: SimRun
    measurement: Measurement


def simulate_profile(
    model: str, profile: str, device: str, flags: str, load: float, seed: int
) -> Simulated:
    """Play the whole profile from a cold start.

    Raises InputError for what cannot be read and for a setting that vLLM would not start.
    """
    setting = Setting.of(model, parse_flags(flags))
    try:
        config = resolve(setting, hardware(device))
    except LaunchFailed as exc:
        failure = exc.failure
        raise InputError(
            f"the setting does not start: {failure.reason}: {failure.message}"
        ) from exc
    recorded = load_profile(resolve_profile(profile))
    start_ns = recorded.requests[0].arrival_ns
    window = Window("all", WindowRole.SEARCH, start_ns, start_ns + recorded.duration_ns + 1)
    run = simulate(
        Columns.of(recorded).load(Plan(window, load, 0, 0)),
        config,
        window_start_ns=0,
        window_end_ns=window.duration_ns,
        seed=seed,
    )
    measurement = measure([curves(run.traces)], (), load, _CONFIDENCE)
    return Simulated(setting, config, run, measurement)
