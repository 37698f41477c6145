"""Reading `vllm serve` flags: types, bounds, and what the simulator does not model."""

from collections.abc import Mapping

from advisor.sim.refusal import refused
from advisor.terms.errors import LaunchFailed
from advisor.terms.flags import FlagValue
from advisor.terms.outcome import Reason

#: Flags that change the timing, and that `resolve` models.
MODELLED = frozenset(
    {
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_model_len",
        "gpu_memory_utilization",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "long_prefill_token_threshold",
        "block_size",
        "tensor_parallel_size",
        "dtype",
        "quantization",
        "kv_cache_dtype",
        "enforce_eager",
        "async_scheduling",
    }
)
#: Flags with no effect on the timing of token-id completions.
NO_EFFECT = frozenset(
    {
        "host",
        "port",
        "served_model_name",
        "api_key",
        "seed",
        "tokenizer",
        "revision",
        "download_dir",
        "load_format",
        "trust_remote_code",
        "generation_config",
        "disable_log_stats",
        "enable_log_requests",
        "disable_uvicorn_access_log",
        "uvicorn_log_level",
        "enable_logging_iteration_details",
        "enable_prompt_tokens_details",
        "enable_per_request_metrics",
        "enable_force_include_usage",
        "allow_deprecated_quantization",
        "prefix_caching_hash_algo",
    }
)
#: Flags that are modelled at one value only: vLLM's default.
_FIXED: Mapping[str, FlagValue] = {
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "scheduling_policy": "fcfs",
    "stream_interval": 1,
    "scheduler_reserve_full_isl": True,
    "prefill_schedule_interval": 1,
    "watermark": 0,
    "performance_mode": "balanced",
}
KNOWN_FLAGS = MODELLED | NO_EFFECT | frozenset(_FIXED)


def modelled(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Without what the simulator refuses only because it does not model it."""
    return {
        name: value
        for name, value in flags.items()
        if name in KNOWN_FLAGS and _FIXED.get(name, value) == value
    }


def invalid(message: str, shortfall: float | None = None) -> LaunchFailed:
    """The refusal of a setting whose flags make no sense."""
    return refused(Reason.INVALID_SETTING, "config", message, shortfall)


class FlagReader:
    """Typed access to one setting's flags; every complaint names flag, value and the accepted."""

    def __init__(self, flags: Mapping[str, FlagValue]) -> None:
        for name, value in flags.items():
            if name not in KNOWN_FLAGS:
                raise invalid(f"the simulator does not model {_word(name)}")
            if name in _FIXED and value != _FIXED[name]:
                raise invalid(
                    f"the simulator models {_word(name)} at {_FIXED[name]} only, not {value!r}"
                )
        self._flags = flags

    def fits_itself(self, name: str) -> bool:
        """Whether vLLM is to choose the value: `auto`, or -1."""
        return self._flags.get(name) in ("auto", -1)

    def integer(self, name: str, low: int) -> int | None:
        """None when not given."""
        value = self._flags.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise invalid(f"{_given(name, value)}: expected an integer >= {low}")
        return value

    def number(self, name: str) -> float | None:
        """None when not given."""
        value = self._flags.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(f"{_given(name, value)}: expected a number")
        return float(value)

    def switch(self, name: str, default: bool) -> bool:
        value = self._flags.get(name, default)
        if not isinstance(value, bool):
            raise invalid(f"{_word(name)} {value!r}: takes no value; use it or {_no(name)}")
        return value

    def word(self, name: str) -> str | None:
        """None when not given."""
        value = self._flags.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise invalid(f"{_given(name, value)}: expected a name")
        return value


def _given(name: str, value: FlagValue) -> str:
    """The flag as it was written; one without a value is read as True."""
    return f"{_word(name)} without a value" if value is True else f"{_word(name)} {value!r}"


def _word(name: str) -> str:
    return "--" + name.replace("_", "-")


def _no(name: str) -> str:
    return "--no-" + name.replace("_", "-")
