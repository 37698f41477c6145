"""What a server really runs with, read back and held against what was asked.

Three sources, the fullest first: `/server_info` (development mode), the labels of the metric
`vllm:cache_config_info`, and lines of the log.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

from advisor.engine.metrics import Samples
from advisor.terms.flags import FlagValue, parse_value
from advisor.terms.setting import Setting

#: flag -> its name in vLLM's configuration, where they differ (vLLM 0.33.0 `vllm/config/`)
_CONFIG_NAMES = {"kv_cache_dtype": "cache_dtype", "scheduling_policy": "policy"}
_SECTIONS = (
    "scheduler_config",
    "cache_config",
    "model_config",
    "parallel_config",
    "load_config",
    "observability_config",
)
#: read back whether asked for or not: they decide a server's speed
_ALWAYS_READ = (
    "async_scheduling",
    "block_size",
    "dtype",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "quantization",
    "tensor_parallel_size",
)
_LOGGED = {
    "max_num_batched_tokens": re.compile(
        r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)"
    ),
    "max_model_len": re.compile(r"Using max model len (\d+)"),
    "enable_prefix_caching": re.compile(r"enable_prefix_caching=(True|False)"),
    "enable_chunked_prefill": re.compile(r"enable_chunked_prefill=(True|False)"),
    "dtype": re.compile(r"[ (]dtype=torch\.(\w+)"),
    "kv_cache_dtype": re.compile(r"kv_cache_dtype=(\w+)"),
    "tensor_parallel_size": re.compile(r"tensor_parallel_size=(\d+)"),
}
_KV_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_SAME = {"half": "float16", "float": "float32"}


def from_server_info(info: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, FlagValue]:
    """Flags found in the JSON of `/server_info?config_format=json`."""
    config = info.get("vllm_config")
    if not isinstance(config, dict):
        return {}
    found: dict[str, FlagValue] = {}
    for name in names:
        for section in _SECTIONS:
            values = config.get(section)
            value = values.get(_CONFIG_NAMES.get(name, name)) if isinstance(values, dict) else None
            if isinstance(value, bool | int | float | str):
                found[name] = _plain(value)
                break
    return found


def from_metrics(samples: Samples, names: tuple[str, ...]) -> dict[str, FlagValue]:
    """Flags among the labels of `vllm:cache_config_info`; labels are Python's words for values."""
    labels = _cache_labels(samples)
    found: dict[str, FlagValue] = {}
    for name in names:
        word = labels.get(_CONFIG_NAMES.get(name, name), "None")
        if word != "None":
            found[name] = _word(word)
    return found


def from_log(log: str, names: tuple[str, ...]) -> dict[str, FlagValue]:
    """Flags that the log tells: the resolved configuration first, else the given arguments."""
    given = _given_arguments(log)
    found = {name: given[name] for name in names if name in given}
    for name in names:
        if (pattern := _LOGGED.get(name)) and (match := pattern.search(log)):
            found[name] = _word(match.group(1))
    return found


def read_back(
    setting: Setting, info: Mapping[str, Any], samples: Samples, log: str
) -> tuple[tuple[str, FlagValue], ...]:
    """(flag, value) sorted by flag, for the asked flags and those that decide speed."""
    names = tuple(sorted({*_ALWAYS_READ, *(name for name, _ in setting.flags)}))
    found = from_log(log, names) | from_metrics(samples, names) | from_server_info(info, names)
    return tuple(sorted(found.items()))


def ignored(setting: Setting, resolved: tuple[tuple[str, FlagValue], ...]) -> tuple[str, ...]:
    """`name: asked X, runs Y` for each knob whose value is not the one asked for."""
    runs = dict(resolved)
    return tuple(
        f"{name}: asked {asked}, runs {runs[name]}"
        for name, asked in setting.flags
        if name in setting.knobs and name in runs and not _equal(asked, runs[name])
    )


def kv_cache_tokens(info: Mapping[str, Any], samples: Samples, log: str) -> int | None:
    """The size of the KV cache in tokens; None when no source tells."""
    if (told := from_server_info(info, ("kv_cache_size_tokens",))) and told:
        return int(told["kv_cache_size_tokens"])
    labels = _cache_labels(samples)
    if labels.get("kv_cache_size_tokens", "None").isdigit():
        return int(labels["kv_cache_size_tokens"])
    if match := _KV_TOKENS.search(log):
        return int(match.group(1).replace(",", ""))
    return None


def _cache_labels(samples: Samples) -> dict[str, str]:
    return next((labels for labels, _ in samples.get("vllm:cache_config_info", [])), {})


def _given_arguments(log: str) -> dict[str, FlagValue]:
    match = re.search(r"non-default args: (\{.*\})", log)
    if not match:
        return {}
    try:
        given = ast.literal_eval(match.group(1))
    except (ValueError, SyntaxError):
        # a value whose repr is not a literal: the other sources have to do
        return {}
    return {
        name: value for name, value in given.items() if isinstance(value, bool | int | float | str)
    }


def _word(word: str) -> FlagValue:
    return word == "True" if word in ("True", "False") else _plain(parse_value(word))


def _plain(value: FlagValue) -> FlagValue:
    return value.removeprefix("torch.") if isinstance(value, str) else value


def _equal(asked: FlagValue, runs: FlagValue) -> bool:
    if asked == "auto":
        return True  # any value is what was asked
    if isinstance(asked, str) and isinstance(runs, str):
        return _SAME.get(asked.lower(), asked.lower()) == runs.lower()
    if isinstance(asked, bool) or isinstance(runs, bool):
        return asked is runs
    if isinstance(asked, int | float) and isinstance(runs, int | float):
        return abs(asked - runs) <= 1e-9 * max(abs(asked), abs(runs))
    return str(asked) == str(runs)
