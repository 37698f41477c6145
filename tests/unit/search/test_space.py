"""Which settings a Space holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.search.defaults import allowed_precisions, default_space
from advisor.search.knob import Knob
from advisor.search.rule import Flag, Rule
from advisor.search.space import Space, Variant
from advisor.search.spacefile import parse_space
from advisor.terms.errors import SpaceError
from advisor.terms.flags import FlagValue

TOKENS = Knob.of("max_num_batched_tokens", [128, 512, 2048])
SEQS = Knob.of("max_num_seqs", [64, 256, 1024])


def test_the_order_is_as_written_with_the_last_knob_fastest() -> None:
    space = Space((TOKENS, Knob.of("enable_prefix_caching", [True, False])))
    found = [
        (s.get("max_num_batched_tokens"), s.get("enable_prefix_caching"))
        for s in space.settings("m", {})
    ]
    assert found == [(t, on) for t in (128, 512, 2048) for on in (True, False)]


def test_fewer_batched_tokens_than_sequences_is_never_a_setting() -> None:
    found = Space((TOKENS, SEQS)).settings("m", {})
    assert {(s.get("max_num_batched_tokens"), s.get("max_num_seqs")) for s in found} == {
        (128, 64),
        (512, 64),
        (512, 256),
        (2048, 64),
        (2048, 256),
        (2048, 1024),
    }


def test_a_fixed_flag_counts_in_the_rules_and_is_in_every_setting() -> None:
    found = Space((TOKENS,)).settings("m", {"max_num_seqs": 256, "dtype": "float16"})
    assert [s.get("max_num_batched_tokens") for s in found] == [512, 2048]
    assert {(s.get("max_num_seqs"), s.get("dtype")) for s in found} == {(256, "float16")}
    assert {s.knobs for s in found} == {("max_num_batched_tokens",)}


def test_a_baseline_flag_that_is_a_knob_is_not_fixed() -> None:
    found = Space((TOKENS,)).settings("m", {"max_num_batched_tokens": 7})
    assert [s.get("max_num_batched_tokens") for s in found] == [128, 512, 2048]


def test_unset_sequences_do_not_bound_the_batched_tokens() -> None:
    found = Space((TOKENS,)).settings("m", {})
    assert found[0].flags == (("max_num_batched_tokens", 128),)
    assert len(found) == 3


def test_without_chunked_prefill_the_longest_prompt_must_fit_one_step() -> None:
    fixed: dict[str, FlagValue] = {"max_model_len": 1000}
    assert len(Space((TOKENS,)).settings("m", fixed)) == 3
    found = Space((TOKENS,)).settings("m", {**fixed, "enable_chunked_prefill": False})
    assert [s.get("max_num_batched_tokens") for s in found] == [2048]


def test_a_length_that_is_only_a_word_is_not_compared() -> None:
    fixed: dict[str, FlagValue] = {"max_model_len": "auto", "enable_chunked_prefill": False}
    assert len(Space((TOKENS,)).settings("m", fixed)) == 3


def test_no_valid_setting_names_the_rules_that_each_one_breaks() -> None:
    with pytest.raises(SpaceError, match="max_num_batched_tokens >= max_num_seqs"):
        Space((TOKENS,)).settings("m", {"max_num_seqs": 4096})
    with pytest.raises(SpaceError, match="gpu_memory_utilization <= 1"):
        Space((TOKENS,)).settings("m", {"gpu_memory_utilization": 1.5})


def test_an_operators_rule_holds_for_numbers_words_and_switches() -> None:
    space = Space(
        (
            SEQS,
            Knob.of("kv_cache_dtype", ["auto", "fp8"]),
            Knob.of("enforce_eager", [True, False]),
        ),
        rules=(
            Rule("max_num_seqs", "<", 1024),
            Rule("kv_cache_dtype", "!=", "fp8", when=(("enforce_eager", True),)),
            Rule("stream_interval", "<", Flag("max_num_seqs")),
        ),
    )
    found = {
        (s.get("max_num_seqs"), s.get("kv_cache_dtype"), s.get("enforce_eager"))
        for s in space.settings("m", {})
    }
    both = {(n, kind, eager) for n in (64, 256) for kind in ("auto", "fp8") for eager in (0, 1)}
    assert found == both - {(64, "fp8", True), (256, "fp8", True)}
    assert len(space.settings("m", {"stream_interval": 100})) == 3


def test_a_conditional_knob_is_absent_where_its_condition_does_not_hold() -> None:
    space = Space(
        (
            # written before the knob that it depends on
            Knob.of("kv_scales", [True, False], when={"kv_cache_dtype": "fp8"}, any_flag=True),
            Knob.of("kv_cache_dtype", ["auto", "fp8"]),
        )
    )
    found = [dict(s.flags) for s in space.settings("m", {"kv_scales": True})]
    assert found == [
        {"kv_cache_dtype": "auto"},
        {"kv_cache_dtype": "fp8", "kv_scales": True},
        {"kv_cache_dtype": "fp8", "kv_scales": False},
    ]


def test_a_variant_sets_model_and_flags_and_frees_them_for_the_others() -> None:
    space = Space(
        (),
        (
            Variant("plain"),
            Variant("online", flags=(("quantization", "fp8"),)),
            Variant("awq", "org/awq"),
        ),
    )
    found = space.settings("org/base", {"quantization": "int8", "max_num_seqs": 8})
    assert [(s.variant, s.model, s.get("quantization")) for s in found] == [
        ("plain", "org/base", None),
        ("online", "org/base", "fp8"),
        ("awq", "org/awq", None),
    ]
    assert found[1].knobs == ("quantization",)
    assert all(s.get("max_num_seqs") == 8 for s in found)


def test_two_variants_that_launch_the_same_command_are_one_setting() -> None:
    space = Space((), (Variant("plain"), Variant("named", "org/base")))
    assert [s.variant for s in space.settings("org/base", {})] == ["plain"]
    assert len(space.settings("org/other", {})) == 2


def test_ten_thousand_settings_are_all_there_and_more_than_fit_are_refused() -> None:
    wide = Knob.ranging("max_num_batched_tokens", 1, 1000, step=1)
    space = Space((wide, Knob.ranging("stream_interval", 1, 10, step=1)))
    assert len({s.key for s in space.settings("m", {})}) == 10_000
    with pytest.raises(SpaceError, match="more than 200000 combinations"):
        Space((wide, Knob.ranging("max_num_seqs", 1, 1000, step=1))).settings("m", {})


def test_a_knob_or_variant_given_twice_is_refused() -> None:
    with pytest.raises(SpaceError, match="knob 'max_num_seqs' is there twice"):
        Space((SEQS, SEQS))
    with pytest.raises(SpaceError, match="variant 'a' is there twice"):
        Space((), (Variant("a"), Variant("a")))


@given(
    tokens=st.lists(st.integers(1, 4096), min_size=1, max_size=5, unique=True),
    seqs=st.lists(st.integers(1, 4096), min_size=1, max_size=5, unique=True),
    ceiling=st.integers(1, 4096),
)
@settings(max_examples=60, deadline=None)
def test_exactly_the_valid_combinations_are_settings(
    tokens: list[int], seqs: list[int], ceiling: int
) -> None:
    space = Space(
        (Knob.of("max_num_batched_tokens", tokens), Knob.of("max_num_seqs", seqs)),
        rules=(Rule("max_num_seqs", "<=", ceiling),),
    )
    wanted = {(t, s) for t in tokens for s in seqs if t >= s and s <= ceiling}
    if not wanted:
        with pytest.raises(SpaceError):
            space.settings("m", {})
        return
    found = space.settings("m", {})
    assert {(s.get("max_num_batched_tokens"), s.get("max_num_seqs")) for s in found} == wanted
    assert len(found) == len(wanted)


def test_the_default_space_is_the_four_knobs_of_the_product() -> None:
    space = default_space(precisions=["bf16", "fp8"])
    values = {knob.name: knob.values for knob in space.knobs}
    assert values == {
        "max_num_batched_tokens": (256, 512, 1024, 2048, 4096, 8192, 16384),
        "gpu_memory_utilization": (0.8, 0.85, 0.9, 0.95),
        "enable_prefix_caching": (True, False),
    }
    found = space.settings("m", {})
    assert len(found) == 2 * 7 * 4 * 2
    assert {(s.variant, s.get("quantization")) for s in found} == {("bf16", None), ("fp8", "fp8")}
    assert parse_space(space.to_toml()) == space


def test_a_quantised_checkpoint_is_served_as_it_is_with_no_flag() -> None:
    precisions = allowed_precisions("awq", fp8_hardware=True)
    found = default_space(precisions=precisions).settings("m", {})
    assert len(found) == 56
    assert {s.get("quantization") for s in found} == {None}
    # nor is a checkpoint in fp8 quantised online once more
    own = default_space(precisions=allowed_precisions("fp8", fp8_hardware=True))
    assert {s.get("quantization") for s in own.settings("m", {})} == {None}


def test_online_fp8_needs_hardware_that_has_it() -> None:
    assert allowed_precisions(None, fp8_hardware=True) == ["bf16", "fp8"]
    assert allowed_precisions(None, fp8_hardware=False) == ["bf16"]


def test_an_unknown_or_missing_precision_is_refused() -> None:
    with pytest.raises(SpaceError, match="'int3' is unknown; accepted: bf16, fp8"):
        default_space(precisions=["int3"])
    with pytest.raises(SpaceError, match="no precision"):
        default_space(precisions=[])
