"""What a door was asked for."""

from dataclasses import dataclass

from advisor.terms.errors import InputError

#: Multiples of the recorded load outside these are a unit error: every window would be repeated
#: or stretched that often.
LEAST_LOAD, MOST_LOAD = 0.001, 100.0


def check_load(load: float) -> None:
    """Raise InputError for a multiple of the recorded load that nobody means."""
    if not LEAST_LOAD <= load <= MOST_LOAD:
        raise InputError(f"load is {load:g}; expected {LEAST_LOAD:g} to {MOST_LOAD:g}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a door was asked for, as it was written there."""

    model: str
    profile: str
    engine: str
    targets: tuple[str, ...]
    hardware: str | None = None
    #: None: `vllm` on the path
    vllm_command: str | None = None
    baseline: str = ""
    space: str | None = None
    sampler: str = "advisor"
    objective: str = "headroom"
    load: float = 1.0
    launches: int = 12
    time_budget_s: float | None = None
    confidence: float = 0.95
    accept_precision_change: bool = False
    seed: int = 0
    gpu_sets: str | None = None
    gpu_hours: float | None = None
    #: None: completions
    api: str | None = None
    gpu_price: float | None = None
    control_arm: bool = False
