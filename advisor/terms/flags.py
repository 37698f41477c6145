"""`vllm serve` flags as a mapping, and back to a list of arguments.

Canonical names are vLLM's own long words with underscores (`max_num_batched_tokens`).
"""

import math
import re
import shlex
from collections.abc import Iterable, Mapping

from advisor.terms.errors import FlagError

#: `None` never appears: a flag that is not given is absent.
FlagValue = bool | int | float | str

#: vLLM reaches into a JSON flag with dots: `--compilation-config.level 3`.
_NAME = re.compile(r"(?!no_?$)[A-Za-z]\w*(\.\w+)*", re.ASCII)

#: The one flag whose value is written without a space: `-O3`.
_LEVEL = re.compile(r"-O(\d)", re.ASCII)

#: Another spelling of one flag -> the canonical name (`vllm serve --help=all`, 0.33.0).
_ALIASES = {
    "device_memory_utilization": "gpu_memory_utilization",
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "q": "quantization",
    "O": "optimization_level",
    "cc": "compilation_config",
    "tokenizer": "tokenizer",
}

#: Flags that are a switch: their absence is not "off", `--no-NAME` is.
SWITCHES = frozenset(
    {
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "async_scheduling",
        "enforce_eager",
        "trust_remote_code",
        "enable_logging_iteration_details",
        "enable_prompt_tokens_details",
        "enable_per_request_metrics",
        "scheduler_reserve_full_isl",
        "disable_log_stats",
        "enable_log_requests",
    }
)

#: Advisor sets these itself on every launch; in a baseline they would be overwritten.
OWNED = frozenset({"model", "model_tag", "host", "port", "served_model_name", "api_key", "uds"})


def canonical(name: str) -> str:
    """`--max-num-batched-tokens` -> `max_num_batched_tokens`, aliases resolved."""
    word = name.lstrip("-").replace("-", "_")
    return _ALIASES.get(word, word)


def parse_flags(text: str, field: str = "baseline") -> dict[str, FlagValue]:
    """Read `'--max-num-seqs 64 --no-enable-prefix-caching'` into a mapping.

    Values become int, float or str, switches bool; a flag with no value is `True`, and
    `--no-NAME` is `NAME = False`. Raises FlagError for a stray word, an empty name, a flag
    given twice with different values, or a flag that Advisor owns; the text begins with `field`.
    """
    try:
        return _parse(text)
    except FlagError as exc:
        raise FlagError(f"{field}: {exc}") from exc


def _parse(text: str) -> dict[str, FlagValue]:
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise FlagError(f"cannot read flags {text!r}: {exc}") from exc
    flags: dict[str, FlagValue] = {}
    position = 0
    while position < len(words):
        name, value, position = _one_flag(words, position)
        if name in OWNED:
            raise FlagError(f"--{name.replace('_', '-')} is set by Advisor; leave it out")
        if name in flags and flags[name] != value:
            raise FlagError(f"{name} is given twice, as {flags[name]!r} and {value!r}")
        flags[name] = value
    return flags


def _one_flag(words: list[str], position: int) -> tuple[str, FlagValue, int]:
    word = words[position]
    if not word.startswith("-") or not word.strip("-"):
        raise FlagError(f"{word!r} is not a flag; expected --name or --name value")
    if level := _LEVEL.fullmatch(word):
        return "optimization_level", int(level[1]), position + 1
    given, equals, inline = word.partition("=")
    name = canonical(given)
    if not _NAME.fullmatch(name):
        raise FlagError(f"{word!r} is not a flag; expected --name or --name value")
    off = name.startswith("no_")
    if equals and not off:
        return name, parse_value(inline), position + 1
    after = inline if equals else "".join(words[position + 1 : position + 2])
    has_value = equals or (position + 1 < len(words) and not _looks_like_flag(after))
    if has_value and (off or name in SWITCHES):
        raise _takes_no_value(given, after)
    if off:
        return name.removeprefix("no_"), False, position + 1
    return (name, parse_value(after), position + 2) if has_value else (name, True, position + 1)


def _takes_no_value(given: str, value: str) -> FlagError:
    what = "switches a flag off" if given.lstrip("-").startswith("no") else "is a switch"
    return FlagError(f"{given} takes no value and has {value!r}; it {what}")


def _looks_like_flag(word: str) -> bool:
    return word.startswith("-") and not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def parse_value(word: str) -> FlagValue:
    """`8192` -> int, `8k` -> 8000, `8K` -> 8192 (vLLM's rule), `0.9` -> float, else text."""
    for suffix, factor in (("k", 1000), ("K", 1024), ("m", 1000**2), ("M", 1024**2)):
        if word.endswith(suffix) and word[:-1].isdecimal():
            return int(word[:-1]) * factor
    try:
        return int(word)
    except ValueError:
        pass
    # float() reads `nan` and `inf` as numbers; as flag values they are words
    return float(word) if _is_number(word) and math.isfinite(float(word)) else word


def to_argv(flags: Mapping[str, FlagValue] | Iterable[tuple[str, FlagValue]]) -> list[str]:
    """A list of words for exec, flag and value apart, switches in both senses explicit."""
    items = flags.items() if isinstance(flags, Mapping) else flags
    argv: list[str] = []
    for name, value in items:
        word = name.replace("_", "-")
        if value is True:
            argv.append(f"--{word}")
        elif value is False:
            argv.append(f"--no-{word}")
        else:
            argv += [f"--{word}", str(value)]
    return argv
