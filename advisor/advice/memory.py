"""How near a setting is to running out of device memory, from the launches of its job.

A value of `--gpu-memory-utilization` that just works leaves nothing for what vLLM does not plan
for, such as graph capture, a larger batch or a neighbour; what worked once may not start tomorrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.advice.explain import percent
from advisor.terms.job import Trial
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting

_UTILIZATION, _TOKENS = "gpu_memory_utilization", "max_num_batched_tokens"
OUT_OF_MEMORY = frozenset(
    {
        Reason.OOM_LOAD,
        Reason.OOM_PROFILING,
        Reason.OOM_GRAPH_CAPTURE,
        Reason.OOM_SAMPLER,
        Reason.OOM_UNDER_LOAD,
    }
)


@dataclass(frozen=True, slots=True)
class MemoryMargin:
    """What the launches of a job show around one value of memory utilisation."""

    #: of the setting itself, 0..1
    share: float
    #: the highest share that ran with at least as many batched tokens; None when none did
    worked: float | None
    #: the launch nearest at or above `share` that ran out of memory; None without one
    failed: Trial | None

    @property
    def at_edge(self) -> bool:
        """Memory ran out at this very value, or above it and nothing higher has worked."""
        if self.failed is None:
            return False
        return _share(self.failed.setting) == self.share or (self.worked or 0.0) <= self.share


def memory_margin(setting: Setting, trials: Sequence[Trial]) -> MemoryMargin | None:
    """None for a setting that does not name its share of the memory.

    Launches compare with it when checkpoint and variant are the same. The activation peak grows
    with the batched tokens: one that ran out counts when it had no more of them, or ran at the
    same share; one that ran counts when it had no fewer.
    """
    share = _share(setting)
    if share is None:
        return None
    alike = [
        (trial, at)
        for trial in trials
        if (trial.setting.model, trial.setting.variant) == (setting.model, setting.variant)
        and (at := _share(trial.setting)) is not None
        and at >= share
    ]
    worked = [
        at
        for trial, at in alike
        if trial.result.state is TrialState.MEASURED and _no_more_tokens(setting, trial.setting)
    ]
    failed = [
        (at, trial.number, trial)
        for trial, at in alike
        if trial.result.failure is not None
        and trial.result.failure.reason in OUT_OF_MEMORY
        and (at == share or _no_more_tokens(trial.setting, setting))
    ]
    nearest = min(failed, default=None, key=lambda each: each[:2])
    return MemoryMargin(share, max(worked, default=None), nearest[2] if nearest else None)


def is_at_edge(setting: Setting, trials: Sequence[Trial]) -> bool:
    """Whether its share of the memory is the highest that can be had, as far as was seen."""
    margin = memory_margin(setting, trials)
    return margin is not None and margin.at_edge


def memory_line(setting: Setting, trials: Sequence[Trial]) -> str | None:
    """What a person must know of the memory before a rollout."""
    margin = memory_margin(setting, trials)
    if margin is None:
        return None
    flag = f"--gpu-memory-utilization {margin.share:g}"
    if margin.failed is None or margin.failed.result.failure is None:
        left = percent(1 - margin.share)
        return f"Memory: {flag} leaves {left} of it free, and no launch like it ran out of memory"
    at, reason = _share(margin.failed.setting), margin.failed.result.failure.reason
    seen = f"memory ran out at {at:g} (trial {margin.failed.number}, {reason})"
    if not margin.at_edge:
        return f"Memory: {flag} is below {margin.worked or 0:g}, which worked too; {seen}"
    if at == margin.share:
        return f"Memory: {flag} has no margin: {seen}, and nothing lower was measured as good"
    return (
        f"Memory: {flag} is the highest value that was seen to work, {seen}; how much room lies "
        "between is not known, and nothing lower was measured as good"
    )


def _share(setting: Setting) -> float | None:
    value = setting.get(_UTILIZATION)
    return float(value) if isinstance(value, int | float) else None


def _no_more_tokens(one: Setting, other: Setting) -> bool:
    """Whether one batches no more tokens than the other; a default equals only itself."""
    left, right = one.get(_TOKENS), other.get(_TOKENS)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left <= right
    return left == right
