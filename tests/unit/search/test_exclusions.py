"""What one launch says about settings that were not launched."""

from collections.abc import Mapping

import pytest

from advisor.search.space import Space, Variant
from advisor.terms.flags import FlagValue
from advisor.terms.job import Proposal, TrialResult
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.search.trials import (
    CACHE,
    SHARE,
    TOKENS,
    failed,
    measured,
    run,
    searcher,
)


def key_flags(setting: Setting) -> tuple[FlagValue | None, FlagValue | None]:
    return setting.get("max_num_batched_tokens"), setting.get("gpu_memory_utilization")


def rest_after(space: Space, given: Mapping[str, FlagValue], result: TrialResult) -> list[Setting]:
    """What is still asked for after one trial with these flags has ended so."""
    search = searcher(space, sampler="grid")
    search.tell(Proposal(Setting.of("m", given), "baseline"), result)
    return [proposal.setting for proposal, _ in run(search, 1000, lambda _: measured(1.0))]


@pytest.mark.parametrize(
    "reason",
    [
        Reason.OOM_LOAD,
        Reason.OOM_PROFILING,
        Reason.OOM_GRAPH_CAPTURE,
        Reason.OOM_SAMPLER,
        Reason.OOM_UNDER_LOAD,
    ],
)
def test_out_of_memory_excludes_all_that_asks_for_as_much(reason: Reason) -> None:
    space = Space((TOKENS, SHARE))
    given = {"max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.9}
    left = {key_flags(setting) for setting in rest_after(space, given, failed(reason))}
    everything = {key_flags(setting) for setting in space.settings("m", {})}
    assert everything - left == {(t, share) for t in (8192, 16384) for share in (0.9, 0.95)}


def test_too_small_a_kv_cache_excludes_lower_shares_and_larger_steps() -> None:
    space = Space((TOKENS, SHARE))
    given = {"max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.85}
    result = failed(Reason.KV_CACHE_TOO_SMALL)
    left = {key_flags(setting) for setting in rest_after(space, given, result)}
    everything = {key_flags(setting) for setting in space.settings("m", {})}
    assert everything - left == {(t, share) for t in (8192, 16384) for share in (0.8, 0.85)}


def test_memory_says_nothing_of_another_precision_or_another_flag() -> None:
    knobs = (TOKENS, SHARE, CACHE)
    space = Space(knobs, (Variant("plain"), Variant("fp8", flags=(("quantization", "fp8"),))))
    given: dict[str, FlagValue] = {
        "max_num_batched_tokens": 256,
        "gpu_memory_utilization": 0.8,
        "enable_prefix_caching": True,
        "quantization": "fp8",
    }
    left = rest_after(space, given, failed(Reason.OOM_LOAD))
    assert len(left) == 2 * 7 * 4 * 2 - 7 * 4
    assert not [s for s in left if s.variant == "fp8" and s.get("enable_prefix_caching")]


def test_other_reasons_and_transient_memory_exclude_nothing_more() -> None:
    space = Space((TOKENS, SHARE))
    given = {"max_num_batched_tokens": 256, "gpu_memory_utilization": 0.8}
    assert len(rest_after(space, given, failed(Reason.DIED))) == 27
    assert len(rest_after(space, given, failed(Reason.MEMORY_TAKEN))) == 28


def test_a_default_that_nobody_set_is_not_compared_with_a_number() -> None:
    space = Space((TOKENS, SHARE))
    left = rest_after(space, {"gpu_memory_utilization": 0.8}, failed(Reason.OOM_LOAD))
    assert len(left) == 28
    only_share = Space((SHARE,))
    left = rest_after(only_share, {"gpu_memory_utilization": 0.9}, failed(Reason.OOM_LOAD))
    assert [setting.get("gpu_memory_utilization") for setting in left] == [0.8, 0.85]


def test_what_the_baseline_ran_with_is_not_launched_again() -> None:
    space = Space((TOKENS, CACHE))
    resolved: dict[str, FlagValue] = {"max_num_batched_tokens": 8192, "max_num_seqs": 256}
    result = measured(1.0, {**resolved, "enable_prefix_caching": True})
    left = rest_after(space, {}, result)
    assert len(left) == 13
    assert (8192, True) not in [
        (s.get("max_num_batched_tokens"), s.get("enable_prefix_caching")) for s in left
    ]
    # a flag of the baseline that the settings do not have makes them another command
    assert len(rest_after(space, {"max_num_seqs": 256}, result)) == 14
