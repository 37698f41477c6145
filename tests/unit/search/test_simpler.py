import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.choose import diff
from advisor.search.defaults import default_space
from advisor.search.knob import Knob
from advisor.search.simpler import simpler
from advisor.search.space import Space
from advisor.terms.flags import FlagValue
from advisor.terms.job import Proposal
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.search.trials import failed, measured, searcher

FULL = default_space(precisions=["bf16", "fp8"])
TOKENS, SHARE, CACHE = "max_num_batched_tokens", "gpu_memory_utilization", "enable_prefix_caching"
NOW: dict[str, FlagValue] = {TOKENS: 2048, SHARE: 0.92, CACHE: True}
BASELINE = Setting.of("m", NOW, tuple(NOW))
settings_ = st.sampled_from(FULL.settings("m", {}))


@given(settings_)
def test_each_takes_back_one_change_and_makes_no_other(setting: Setting) -> None:
    changes = len(diff(setting, BASELINE))
    found = list(simpler(setting, BASELINE, FULL))
    assert len(found) == changes
    for other in found:
        assert len(diff(other, BASELINE)) == changes - 1
        assert len(diff(other, setting)) == 1


def test_the_current_setting_has_nothing_to_take_back() -> None:
    assert list(simpler(BASELINE, BASELINE, FULL)) == []


def test_a_flag_that_was_not_given_is_taken_out() -> None:
    given_ = Setting.of("m", {**NOW, "max_num_seqs": 64}, (*NOW, "max_num_seqs"))
    space = Space((Knob.of("max_num_seqs", [64]),))
    assert list(simpler(given_, BASELINE, space)) == [Setting.of("m", NOW, (*NOW, "max_num_seqs"))]


def test_a_variant_is_taken_back_with_its_checkpoint() -> None:
    space = default_space(precisions=["bf16", "fp8"])
    fp8 = next(s for s in space.settings("m", {}) if s.variant == "fp8")
    back = list(simpler(fp8, BASELINE, space))[-1]
    assert back.get("quantization") is None
    assert (back.model, back.variant) == ("m", None)


def proposed(setting: Setting, *told: tuple[Setting, object]) -> list[Setting]:
    search = searcher()
    for each, result in told:
        search.tell(Proposal(each, "told"), result)  # type: ignore[arg-type]
    found = []
    while proposal := search.simpler(setting, BASELINE):
        found.append(proposal.setting)
        search.tell(proposal, measured(1.0))
    return found


def changed(**flags: FlagValue) -> Setting:
    return Setting.of("m", {**NOW, **flags}, tuple(NOW))


def test_each_is_proposed_once_and_none_that_was_tried() -> None:
    setting = changed(max_num_batched_tokens=512, gpu_memory_utilization=0.8)
    once = [changed(gpu_memory_utilization=0.8), changed(max_num_batched_tokens=512)]
    assert sorted(s.key for s in proposed(setting)) == sorted(s.key for s in once)
    assert proposed(setting, (once[0], measured(1.0))) == [once[1]]


def test_none_is_proposed_that_must_fail_or_breaks_a_rule() -> None:
    setting = changed(max_num_batched_tokens=512, gpu_memory_utilization=0.8)
    starved = changed(max_num_batched_tokens=512, gpu_memory_utilization=0.9)
    ran_out = (starved, failed(Reason.OOM_PROFILING))
    assert changed(max_num_batched_tokens=512) not in proposed(setting, ran_out)
    wide = Setting.of("m", {**NOW, TOKENS: 8192, "max_num_seqs": 4096}, (*NOW, "max_num_seqs"))
    assert all(s.get(TOKENS) == 8192 for s in proposed(wide) if s.get("max_num_seqs") == 4096)


@pytest.mark.parametrize("sampler", ["advisor", "tpe", "grid"])
def test_whatever_the_sampler_it_can_be_told_of_a_setting_outside_the_space(sampler: str) -> None:
    search = searcher(sampler=sampler)
    proposal = search.simpler(
        changed(max_num_batched_tokens=512), changed(enable_prefix_caching=False)
    )
    assert proposal is not None
    search.tell(proposal, measured(1.0))
    assert search.ask() is not None
