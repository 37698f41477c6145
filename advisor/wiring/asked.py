"""What a door was asked for."""

from dataclasses import dataclass


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
    #: None: completions
    api: str | None = None
