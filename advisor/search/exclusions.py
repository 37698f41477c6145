"""What a failed launch, or a server that filled in its defaults, says about other settings."""

from collections.abc import Callable, Mapping

from advisor.search.knob import is_number, same
from advisor.terms.flags import FlagValue
from advisor.terms.outcome import Failure, Reason
from advisor.terms.setting import Setting

_TOKENS = "max_num_batched_tokens"
_UTILIZATION = "gpu_memory_utilization"
_OUT_OF_MEMORY = frozenset(
    {
        Reason.OOM_LOAD,
        Reason.OOM_PROFILING,
        Reason.OOM_GRAPH_CAPTURE,
        Reason.OOM_SAMPLER,
        Reason.OOM_UNDER_LOAD,
    }
)


def excluded_by(failed: Setting, failure: Failure) -> Callable[[Setting], bool]:
    """Which settings must fail too, since they ask for at least as much of the same memory.

    The activation peak grows with the batched tokens. Memory beyond the claimed share shrinks
    as the share grows, so out of memory at a share is out of memory above it; a KV pool too
    small at a share is too small below it. All else must be equal to compare.
    """
    if failure.reason in _OUT_OF_MEMORY:
        higher = True
    elif failure.reason is Reason.KV_CACHE_TOO_SMALL:
        higher = False
    else:
        return lambda setting: False

    def must_fail(setting: Setting) -> bool:
        if _others(setting) != _others(failed):
            return False
        low, high = (failed, setting) if higher else (setting, failed)
        return _at_most(low, high, _UTILIZATION) and _at_most(failed, setting, _TOKENS)

    return must_fail


def _others(setting: Setting) -> tuple[str, list[tuple[str, str]]]:
    """Checkpoint and the flags that must be equal; `repr` keeps true apart from 1."""
    flags = [(name, repr(v)) for name, v in setting.flags if name not in (_TOKENS, _UTILIZATION)]
    return setting.model, flags


def _at_most(smaller: Setting, larger: Setting, name: str) -> bool:
    """Whether one value is at most the other; a default that nobody set equals only itself."""
    left, right = smaller.get(name), larger.get(name)
    if left is None or right is None:
        return left is right
    return is_number(left) and is_number(right) and left <= right


def effective_flags(
    setting: Setting, resolved: tuple[tuple[str, FlagValue], ...]
) -> dict[str, FlagValue]:
    """What the server really ran with: what it read back, over what it was given."""
    return {**dict(setting.flags), **dict(resolved)}


def runs_as(setting: Setting, given: Setting, effective: Mapping[str, FlagValue]) -> bool:
    """Whether launching `setting` would repeat the launch of `given`, its defaults resolved.

    Every flag it sets has the value that ran already, and it leaves out none that was given.
    """
    if setting.model != given.model:
        return False
    names = {name for name, _ in setting.flags}
    if any(name not in names for name, _ in given.flags):
        return False
    return all(same(effective.get(name), value) for name, value in setting.flags)
