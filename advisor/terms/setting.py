"""One choice for every knob, complete enough to start a server with."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.terms.flags import FlagValue, to_argv

#: Flags whose change is a change of numerical precision, so of the answers.
PRECISION_FLAGS = ("quantization", "kv_cache_dtype", "dtype")
#: Flags that multiply the GPUs of a launch (vLLM 0.33 `vllm/config/parallel.py`, world_size).
PARALLEL_FLAGS = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "prefill_context_parallel_size",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A checkpoint and its flags; equal settings are equal values."""

    #: checkpoint or built-in model name
    model: str
    #: canonical name -> value, sorted by name; knobs and the flags fixed for all trials
    flags: tuple[tuple[str, FlagValue], ...]
    #: names among `flags` that the search may change
    knobs: tuple[str, ...] = ()
    #: name of the Variant that set model and flags, where the Space has any
    variant: str | None = None

    @classmethod
    def of(
        cls,
        model: str,
        flags: Mapping[str, FlagValue],
        knobs: tuple[str, ...] = (),
        variant: str | None = None,
    ) -> "Setting":
        """Build with flags sorted by name."""
        return cls(model, tuple(sorted(flags.items())), tuple(sorted(knobs)), variant)

    @property
    def key(self) -> str:
        """Names what would be launched: equal for settings that run the same command."""
        text = json.dumps([self.model, [list(pair) for pair in self.flags]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def get(self, name: str) -> FlagValue | None:
        """The value of one flag, None when it is not set."""
        return dict(self.flags).get(name)

    @property
    def gpus(self) -> int:
        """How many GPUs a launch uses by its flags: the product of its parallel sizes."""
        sizes = (self.get(name) for name in PARALLEL_FLAGS)
        return math.prod(size for size in sizes if isinstance(size, int))

    def argv(self) -> list[str]:
        """`[model, --flag, value, …]`, what follows `vllm serve`."""
        return [self.model, *to_argv(self.flags)]

    def precision(self) -> tuple[FlagValue | None, ...]:
        """What decides the bits of weights and KV cache: checkpoint and precision flags.

        vLLM's `auto` is what it does when the flag is not given.
        """
        values = (self.get(name) for name in PRECISION_FLAGS)
        return (self.model, *(None if value == "auto" else value for value in values))
