"""Problems for a search: servers that are not what the simulator says.

Each is a model on a device under a profile, with what the sampler's own simulator knows nothing
of: other constants, a cliff in the step time, a knob that is ignored, settings that run out of
memory at start or under load, and launches that differ.
"""

import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from advisor.calibrate.constants import Constants
from advisor.profile.load import load_profile
from advisor.profile.synth import synthesise
from advisor.profile.write import write_profile
from advisor.search.defaults import default_space
from advisor.search.knob import Knob
from advisor.search.space import Space
from advisor.terms.job import JobSpec, Objective
from advisor.terms.setting import Setting
from advisor.terms.target import Target

SECOND = 1_000_000_000
MULTIPLES = (0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
_SERVERS = (
    ("llama-3.1-8b", "h100-sxm"),
    ("llama-3.1-8b", "l40s"),
    ("qwen2.5-7b", "a100-40gb-sxm"),
    ("qwen2.5-32b", "h100-sxm"),
    ("mistral-7b", "rtx-4090"),
)
_PROFILES = ("chat-and-documents", "chat-shared-prefix")
#: Replayed windows must stay short: a problem is asked hundreds of times.
PROFILE_S = 900
PROBLEMS = 40


@dataclass(frozen=True, slots=True)
class Flaws:
    """What the sampler's simulator does not know of a server."""

    constants: Constants
    #: from so many batched tokens on a step takes this much longer
    cliff_tokens: int
    cliff: float
    #: a flag that the server ignores, None: none
    ignored: str | None
    #: memory utilisation and batched tokens from which on it does not start, or ends under load
    oom_at: tuple[float, int]
    under_load: bool
    #: standard deviation of what launches of one setting differ by, as a logarithm
    noise: float


def _flaws(rng: np.random.Generator) -> Flaws:
    def factor() -> float:
        return float(rng.uniform(1 / 1.4, 1.4))

    names = ("weights", "token", "context", "pair", "step", "sequence")
    return Flaws(
        constants=Constants(
            **{name: factor() for name in names},
            prefill_ms=float(rng.uniform(0, 2)),
            request_ms=float(rng.uniform(5, 30)),
        ),
        cliff_tokens=int(rng.choice([1024, 4096, 8192, 1 << 30])),
        cliff=float(rng.uniform(1.1, 1.5)),
        ignored=str(rng.choice(["gpu_memory_utilization", "enable_prefix_caching"]))
        if rng.random() < 0.25
        else None,
        oom_at=(float(rng.choice([0.9, 0.95, 2.0])), int(rng.choice([4096, 8192]))),
        under_load=bool(rng.random() < 0.5),
        noise=float(rng.uniform(0.003, 0.02)),
    )


@dataclass(frozen=True)
class Problem:
    """One of them; the same for the same number."""

    number: int

    @property
    def is_held_out(self) -> bool:
        return self.number % 2 == 1

    @cached_property
    def served(self) -> tuple[str, str]:
        return _SERVERS[self.number // 2 % len(_SERVERS)]

    @cached_property
    def flaws(self) -> Flaws:
        return _flaws(np.random.default_rng([self.number, 21]))

    @cached_property
    def profile_path(self) -> Path:
        made = synthesise(_PROFILES[self.number // 4 % 2], seed=100 + self.number)
        kept = tuple(r for r in made.requests if r.arrival_ns < PROFILE_S * SECOND)
        path = Path(tempfile.gettempdir()) / f"search-bank-{self.number}.jsonl"
        write_profile(replace(made, requests=kept), path)
        return path

    @cached_property
    def space(self) -> Space:
        if self.number % 3:
            return default_space(precisions=["bf16"])
        return Space(
            (
                Knob.ranging("max_num_batched_tokens", 512, 8192, log=True),
                Knob.of("gpu_memory_utilization", [0.8, 0.9, 0.95]),
                Knob.of("enable_prefix_caching", [True, False]),
                Knob.of("max_num_seqs", [32, 64, 128, 256]),
            )
        )

    @cached_property
    def settings(self) -> list[Setting]:
        return self.space.settings(self.served[0], {"max_model_len": 16384})


def spec_of(problem: Problem, load: float, targets: list[Target], baseline: str) -> JobSpec:
    """The job that is asked of every sampler."""
    profile = load_profile(problem.profile_path)
    model, device = problem.served
    return JobSpec(
        model=model,
        profile_path=str(problem.profile_path),
        profile_sha256=profile.sha256,
        engine="sim",
        hardware=device,
        vllm_command="vllm",
        baseline=baseline,
        space=problem.space.to_toml(),
        sampler="advisor",
        objective=Objective.HEADROOM,
        load=load,
        launches=12,
        time_budget_s=None,
        confidence=0.95,
        targets=tuple(targets),
        accept_precision_change=False,
        seed=0,
        multiples=MULTIPLES,
        rounds=1,
    )
