"""What one launch says about settings that were not launched."""

from collections.abc import Mapping

import pytest

from advisor.search.knob import Knob
from advisor.search.space import Space, Variant
from advisor.terms.flags import FlagValue
from advisor.terms.job import Proposal, TrialResult
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.search.trials import (
    CACHE,
    SAMPLERS,
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


NO_BLOCKS = failed(Reason.KV_CACHE_TOO_SMALL)
LOW = Knob.of("gpu_memory_utilization", [0.2, 0.25, 0.3, 0.35])


def test_a_floor_holds_for_memory_utilisation_and_no_more_than_for_its_own_batch() -> None:
    """Where 0.3 leaves no room for the cache, nothing at or below it is asked for; a smaller
    batch leaves more room, so what it needs is not known."""
    space = Space((Knob.of("max_num_batched_tokens", [1024, 2048]), LOW))
    given = {"max_num_batched_tokens": 2048, "gpu_memory_utilization": 0.3}
    left = [key_flags(setting) for setting in rest_after(space, given, NO_BLOCKS)]
    assert left == [*((1024, share) for share in (0.2, 0.25, 0.3, 0.35)), (2048, 0.35)]


def test_a_context_that_did_not_fit_says_nothing_of_a_longer_one() -> None:
    """What a start takes does not rise steadily with the context: 29k was seen to fail where 35k
    ran. So it is not compared, nor ever changed."""
    space = Space((Knob.of("max_model_len", [20_000, 29_000, 35_000]),))
    left = rest_after(space, {"max_model_len": 29_000}, NO_BLOCKS)
    assert [setting.get("max_model_len") for setting in left] == [20_000, 35_000]


def test_sequences_that_did_not_fit_say_nothing_of_other_numbers_of_them() -> None:
    space = Space((Knob.of("max_num_seqs", [256, 512, 1024]), LOW))
    given = {"max_num_seqs": 512, "gpu_memory_utilization": 0.3}
    left = rest_after(space, given, failed(Reason.OOM_SAMPLER))
    assert len(left) == 12 - 2
    assert {s.get("gpu_memory_utilization") for s in left if s.get("max_num_seqs") == 512} == {
        0.2,
        0.25,
    }


def test_a_ceiling_is_the_share_that_failed_and_not_the_one_below_it() -> None:
    space = Space((Knob.of("gpu_memory_utilization", [0.96, 0.97, 0.98, 0.99]),))
    result = failed(Reason.OOM_GRAPH_CAPTURE)
    left = rest_after(space, {"gpu_memory_utilization": 0.98}, result)
    assert [setting.get("gpu_memory_utilization") for setting in left] == [0.96, 0.97]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_floor_and_a_ceiling_close_in_on_what_runs(sampler: str) -> None:
    """Each that failed lay nearer to what runs than those before it did."""

    def answer(setting: Setting) -> TrialResult:
        share = setting.get("gpu_memory_utilization")
        assert isinstance(share, float)
        if share < 0.5:
            return NO_BLOCKS
        return failed(Reason.OOM_GRAPH_CAPTURE) if share > 0.6 else measured(1.0)

    values = [round(0.05 * n, 2) for n in range(1, 20)]
    search = searcher(Space((Knob.of("gpu_memory_utilization", values),)), sampler=sampler)
    done = run(search, 99, answer)
    shares = [share for p, _ in done for _, share in p.setting.flags if isinstance(share, float)]
    low = [share for share in shares if share < 0.5]
    high = [share for share in shares if share > 0.6]
    assert low == sorted(low)
    assert high == sorted(high, reverse=True)
    ran = sorted(set(shares) - {*low, *high})
    assert ran
    # the others may see no more gain before they have seen all
    assert ran == [0.5, 0.55, 0.6] or sampler in ("advisor", "gp")


def test_what_is_known_to_fail_is_no_smaller_change_either() -> None:
    search = searcher(Space((TOKENS, SHARE)), sampler="grid")
    both = ("max_num_batched_tokens", "gpu_memory_utilization")

    def setting(tokens: int, share: float) -> Setting:
        return Setting.of("m", dict(zip(both, (tokens, share), strict=True)), both)

    search.tell(Proposal(setting(256, 0.8), "grid"), NO_BLOCKS)
    # with the baseline's share it would fail as well, so its batch is what is tried
    proposal = search.simpler(setting(512, 0.9), setting(4096, 0.8))
    assert proposal is not None
    assert proposal.setting == setting(4096, 0.9)
