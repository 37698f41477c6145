"""Reading and writing `vllm serve` flags."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.terms.errors import FlagError
from advisor.terms.flags import (
    OWNED,
    SWITCHES,
    FlagValue,
    canonical,
    parse_flags,
    parse_value,
    to_argv,
)

NAMES = (
    st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
    .filter(lambda name: not name.startswith("no") and name not in OWNED | SWITCHES)
    .filter(lambda name: canonical(name) == name)
)
VALUES = st.one_of(
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(min_size=1).filter(
        lambda text: not text.startswith("-") and parse_value(text) == text
    ),
)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", {}),
        ("--max-num-seqs 64", {"max_num_seqs": 64}),
        ("--max_num_seqs=64", {"max_num_seqs": 64}),
        ("--gpu-memory-utilization 0.9", {"gpu_memory_utilization": 0.9}),
        ("--max-num-batched-tokens 8K --max-model-len 8k", None),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("--enable-prefix-caching", {"enable_prefix_caching": True}),
        ("-tp 2 --dtype half", {"tensor_parallel_size": 2, "dtype": "half"}),
        ("-O3 -q fp8", {"optimization_level": 3, "quantization": "fp8"}),
        ("-O 2", {"optimization_level": 2}),
        ("--swap-space -1", {"swap_space": -1}),
        ("""--json '{"a": 1}'""", {"json": '{"a": 1}'}),
        ("--compilation-config.level 3", {"compilation_config.level": 3}),
        ("--enforce-eager --dtype half", {"enforce_eager": True, "dtype": "half"}),
        ("--new-switch --dtype half", {"new_switch": True, "dtype": "half"}),
        ("--dtype half --dtype=half", {"dtype": "half"}),
    ],
)
def test_flags_are_read(text: str, flags: dict[str, FlagValue] | None) -> None:
    expected = {"max_num_batched_tokens": 8192, "max_model_len": 8000} if flags is None else flags
    assert parse_flags(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("64", "'64' is not a flag"),
        ("--max-num-seqs 64 65", "'65' is not a flag"),
        ("--enable-prefix-caching true", "--enable-prefix-caching takes no value and has 'true'"),
        ("--no-such-flag 3", "--no-such-flag takes no value and has '3'; it switches a flag off"),
        ("--no-such-flag -1", "--no-such-flag takes no value and has '-1'"),
        ("--no-such-flag ''", "--no-such-flag takes no value and has ''"),
        ("--", "'--' is not a flag"),
        ("--=5", "'--=5' is not a flag"),
        ("-1", "'-1' is not a flag"),
        ("--no-", "'--no-' is not a flag"),
        ("--no-such-flag=", "--no-such-flag takes no value and has ''"),
        ("--no-enable-prefix-caching=true", "--no-enable-prefix-caching takes no value and has"),
        ("--port 8000", "--port is set by Advisor"),
        ("--no-port", "--port is set by Advisor"),
        ("--api-key x", "--api-key is set by Advisor"),
        ("--model y", "--model is set by Advisor"),
        ("--model-tag=y", "--model-tag is set by Advisor"),
        ("--dtype half --dtype float", "dtype is given twice, as 'half' and 'float'"),
        ("--tp 1 --tensor-parallel-size 2", "tensor_parallel_size is given twice"),
        ("--dtype 'half", "cannot read flags"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(FlagError) as error:
        parse_flags(text)
    assert str(error.value).startswith("baseline: ")
    assert says in str(error.value)


def test_the_error_begins_with_what_was_given() -> None:
    with pytest.raises(FlagError, match=r"^flags: '512' is not a flag"):
        parse_flags("512", "flags")


@given(st.text())
def test_any_text_is_flags_or_one_error(text: str) -> None:
    try:
        flags = parse_flags(text)
    except FlagError:
        return
    assert all(isinstance(value, bool | int | float | str) for value in flags.values())
    assert OWNED.isdisjoint(flags)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_flags_read_back_as_they_were_written(flags: dict[str, FlagValue]) -> None:
    read = parse_flags(shlex.join(to_argv(flags)))
    assert read == flags
    assert [type(value) for value in read.values()] == [type(v) for v in flags.values()]


@given(st.text())
def test_a_value_is_always_read_and_always_finite(word: str) -> None:
    value = parse_value(word)
    assert isinstance(value, str) or abs(value) < float("inf")


@pytest.mark.parametrize("word", ["nan", "-nan", "inf", "+Infinity", "1e999", "²k", "kk", "k"])
def test_words_that_only_look_like_numbers_stay_words(word: str) -> None:
    assert parse_value(word) == word


def test_switches_are_explicit_in_both_senses() -> None:
    flags = {"enable_prefix_caching": False, "enforce_eager": True, "max_num_seqs": 8}
    argv = ["--no-enable-prefix-caching", "--enforce-eager", "--max-num-seqs", "8"]
    assert to_argv(flags) == argv
    assert to_argv(flags.items()) == argv
