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
from advisor.terms.profile import Plan, Profile, Window, WindowRole
from advisor.terms.setting import Setting
from advisor.wiring.asked import check_load

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
    check_load(load)
    setting = Setting.of(model, parse_flags(flags, "flags"))
    try:
        config = resolve(setting, hardware(device))
    except LaunchFailed as exc:
        failure = exc.failure
        raise InputError(
            f"the setting does not start: {failure.reason}: {failure.message}"
        ) from exc
    recorded = load_profile(resolve_profile(profile))
    _refuse_too_long(recorded, config.max_model_len)
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


def _refuse_too_long(profile: Profile, max_model_len: int) -> None:
    shortest = min(each.input_length + each.output_length for each in profile.requests)
    if shortest > max_model_len:
        raise InputError(
            f"profile {profile.name}: none of its {len(profile.requests)} requests fits into "
            f"{max_model_len} tokens; expected --max-model-len of at least {shortest}"
        )
