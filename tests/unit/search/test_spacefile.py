"""Reading a Space: what a good file gives, and the one line that each bad one gets."""

import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.search.knob import Knob, KnobType
from advisor.search.known import KNOWN, Kind
from advisor.search.rule import Flag, Rule
from advisor.search.space import Space, Variant
from advisor.search.spacefile import parse_space
from advisor.terms.errors import SpaceError
from advisor.terms.flags import FlagValue

GOOD = """
[knobs.max_num_batched_tokens]
low = 512
high = 4096
log = true

[knobs.gpu_memory_utilization]
low = 0.80
high = 0.95
step = 0.05

[knobs.enable_prefix_caching]
values = [true, false]

[knobs.kv_cache_dtype]
values = ["auto", "fp8"]

[knobs.kv_scales]
values = [true]
any_flag = true
when = { kv_cache_dtype = "fp8" }

[variants.bf16]

[variants.awq]
model = "org/model-awq"
flags = { dtype = "float16" }

[[rules]]
left = "max_num_batched_tokens"
op = ">="
right = "max_num_seqs"

[[rules]]
left = "kv_cache_dtype"
op = "!="
right = "fp8"
"""


def test_a_file_with_everything_is_read() -> None:
    space = parse_space(GOOD)
    values = {knob.name: knob.values for knob in space.knobs}
    assert values["max_num_batched_tokens"] == (512, 1024, 2048, 4096)
    assert values["gpu_memory_utilization"] == (0.8, 0.85, 0.9, 0.95)
    assert values["enable_prefix_caching"] == (True, False)
    assert [knob.type for knob in space.knobs[:4]] == list(KnobType)
    assert space.knobs[4].when == (("kv_cache_dtype", "fp8"),)
    assert space.variants == (
        Variant("bf16"),
        Variant("awq", "org/model-awq", (("dtype", "float16"),)),
    )
    assert space.rules == (
        Rule("max_num_batched_tokens", ">=", Flag("max_num_seqs")),
        Rule("kv_cache_dtype", "!=", "fp8"),
    )


def test_writing_and_reading_again_gives_an_equal_space() -> None:
    space = parse_space(GOOD)
    assert parse_space(space.to_toml()) == space


def test_every_example_in_the_documentation_is_a_space() -> None:
    page = (Path(__file__).parents[3] / "docs" / "space.md").read_text()
    examples = [part.split("```")[0] for part in page.split("```toml\n")[1:]]
    assert len(examples) >= 2
    for example in examples:
        assert parse_space(example).settings("m", {})


KNOB = "[knobs.max_num_seqs]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("knobs = [", "not valid TOML"),
        ("", "nothing to search"),
        ("[knob.max_num_seqs]\nvalues = [1]", "unknown key 'knob'"),
        ("knobs = 3", "knobs must be a table"),
        ("[knobs]\nmax_num_seqs = 3", "knobs.max_num_seqs must be a table"),
        ("variants = 3", "variants must be a table"),
        (KNOB + "value = [1]", "unknown key 'value'; accepted: values"),
        ("[knobs.max_num_sqs]\nvalues = [1]", "did you mean max_num_seqs?"),
        ("[knobs.max-num-seqs]\nvalues = [1]", "did you mean max_num_seqs?"),
        ("[knobs.warp_speed]\nvalues = [1]", "no known `vllm serve` flag"),
        ("[knobs.'A b']\nvalues = [1]\nany_flag = true", "is no flag word"),
        ("[knobs.port]\nvalues = [1]", "set by Advisor"),
        ("[knobs.port]\nvalues = [1]\nany_flag = true", "set by Advisor"),
        ('[knobs.model_tag]\nvalues = ["y"]\nany_flag = true', "set by Advisor"),
        (KNOB + "values = []", "values is empty"),
        (KNOB + "values = 8", "values must be a list"),
        (KNOB + "values = [[1]]", "[1] is no flag value"),
        (KNOB + "values = [8, 8]", "value 8 is listed twice"),
        (KNOB + "values = [8, true]", "value true: --max-num-seqs takes a whole number"),
        (KNOB + "values = [0]", "value 0: --max-num-seqs takes a whole number of at least 1"),
        (KNOB + "values = [1.5]", "takes a whole number"),
        ("[knobs.x]\nany_flag = true\nvalues = [8, true]", "mix types"),
        ("[knobs.x]\nany_flag = true\nvalues = [nan]", "must be finite"),
        ("[knobs.gpu_memory_utilization]\nvalues = [9.0]", "above 0 and at most 1"),
        ("[knobs.watermark]\nvalues = [1.0]", "at least 0 and below 1"),
        ("[knobs.enable_prefix_caching]\nvalues = [1]", "takes true or false"),
        (KNOB + "values = [1]\nlow = 1", "both values and low"),
        (KNOB + "low = 1", "needs either values, or low and high"),
        (KNOB + "low = 8\nhigh = 4\nstep = 1", "low 8 is above high 4"),
        (KNOB + "low = 1\nhigh = 4", "either step or log = true"),
        (KNOB + "low = 1\nhigh = 4\nstep = 1\nlog = true", "either step or log = true"),
        (KNOB + "low = 1\nhigh = 4\nstep = 0", "step 0 must be above 0"),
        (KNOB + "low = 0\nhigh = 4\nlog = true", "low 0 must be above 0 with log"),
        (KNOB + "low = 1\nhigh = inf\nstep = 1", "high inf must be finite"),
        (KNOB + "low = '1'\nhigh = 4\nstep = 1", 'low must be a number, got "1"'),
        (KNOB + "low = 1\nhigh = 999999999\nstep = 1", "more than 10000 values"),
        (KNOB + "values = [1]\ntype = 'int'", "type 'int' is unknown; one of integer, float"),
        (KNOB + "values = [1]\ntype = 'boolean'", "value 1 is no boolean"),
        ("[knobs.x]\nany_flag = true\nvalues = [1.5]\ntype = 'integer'", "1.5 is no integer"),
        (KNOB + "values = [1]\nany_flag = 1", "any_flag must be true or false"),
        (KNOB + "values = [1]\nwhen = 3", "when must be a table"),
        (KNOB + "values = [1]\nwhen = { nope = 1 }", "names nope, which is no knob"),
        (KNOB + "values = [1]\nwhen = { max_num_seqs = 1 }", "go in a circle"),
        (
            KNOB + "values = [1]\nwhen = { stream_interval = 9 }\n"
            "[knobs.stream_interval]\nvalues = [1, 2]",
            "stream_interval = 9: its values are 1, 2",
        ),
        ("[variants.a]\nweights = 1", "unknown key 'weights'; accepted: model, flags"),
        ("[variants.'a b']", "letters, digits"),
        ("[variants.a]\nmodel = ''", "model must be a checkpoint's name"),
        ("[variants.a]\n[variants.b]", "the same as variant"),
        ("[variants.a]\nflags = { port = 1 }", "port is set by Advisor"),
        ('[variants.a]\nflags = { model = "y" }', "model is set by Advisor"),
        ("[variants.a]\nflags = { quantization = [1] }", "flags.quantization: [1] is no flag"),
        ("[variants.a]\nflags = { max_num_seqs = 'x' }", "takes a whole number"),
        (
            KNOB + "values = [1]\n[variants.a]\nflags = { max_num_seqs = 1 }",
            "max_num_seqs, which is a knob",
        ),
        (KNOB + "values = [1]\n[rules]\nleft = 1", "rules must be a list"),
        (KNOB + "values = [1]\n[[rules]]\nleft = 'max_num_seqs'", "rule 1: has no op"),
    ],
)
def test_bad_text_is_one_clear_line(text: str, said: str) -> None:
    with pytest.raises(SpaceError) as caught:
        parse_space(text)
    message = str(caught.value)
    assert said in message
    assert message.startswith("space: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("left", "op", "right", "said"),
    [
        ("max_num_seq", "<", "4", "unknown knob 'max_num_seq'; did you mean max_num_seqs?"),
        ("max_num_seqs", "<", "'max_num_sq'", "unknown knob 'max_num_sq'"),
        ("max_num_seqs", "=", "4", "op '=' is unknown; one of < <= > >= == !="),
        ("3", "<", "4", "left must be the name of a flag"),
        ("max_num_seqs", "<", "true", "true has no order"),
        ("max_num_seqs", "<", "[1]", "is no flag value"),
        ("enable_prefix_caching", "<", "4", "is boolean and has no order"),
        ("max_num_seqs", "==", "'fast'", "unknown knob 'fast'"),
    ],
)
def test_a_bad_rule_is_one_clear_line(left: str, op: str, right: str, said: str) -> None:
    quoted = left if left.isdigit() else f"'{left}'"
    text = (
        KNOB + "values = [1]\n[knobs.enable_prefix_caching]\nvalues = [true]\n"
        f"[[rules]]\nleft = {quoted}\nop = '{op}'\nright = {right}"
    )
    with pytest.raises(SpaceError) as caught:
        parse_space(text)
    assert said in str(caught.value)


def test_a_range_in_decimal_has_no_binary_dust_and_includes_its_end() -> None:
    assert Knob.ranging("watermark", 0.1, 0.7, step=0.1).values == tuple(
        n / 10 for n in range(1, 8)
    )
    assert Knob.ranging("max_num_seqs", 3, 20, log=True).values == (3, 6, 12)


def test_a_whole_number_for_a_share_is_the_same_command_as_its_float() -> None:
    knob = parse_space("[knobs.gpu_memory_utilization]\nvalues = [1, 0.9]").knobs[0]
    assert [repr(value) for value in knob.values] == ["0.9", "1.0"]


WORDS = st.text(alphabet=string.ascii_lowercase + "_", min_size=1, max_size=8).map("x{}".format)
VALUES: st.SearchStrategy[list[FlagValue]] = st.one_of(
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4, unique=True),
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4, unique=True
    ),
    st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True),
).map(list)

VARIANT_NAMES = st.text(alphabet="abXY019._-", max_size=5).map("v{}".format)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Knobs with any name and value, some of them conditional, a few variants and rules."""
    knobs: list[Knob] = []
    for name in draw(st.lists(WORDS, min_size=1, max_size=4, unique=True)):
        when = {}
        conditional: bool = draw(st.booleans())
        if knobs and conditional:
            parent: Knob = draw(st.sampled_from(knobs))
            when = {parent.name: draw(st.sampled_from(parent.values))}
        knobs.append(Knob.of(name, draw(VALUES), when=when, any_flag=True))
    names: list[str] = draw(st.lists(VARIANT_NAMES, max_size=3, unique=True))
    variants = [Variant(name, f"org/{name}") for name in names]
    rules: list[Rule] = []
    flags = {*KNOWN, *(knob.name for knob in knobs)}
    for knob in knobs:
        constant: FlagValue = draw(st.sampled_from(knob.values))
        # in the file, the name of a flag always means the flag
        wanted: bool = draw(st.booleans())
        if wanted and constant not in flags:
            rules.append(Rule(knob.name, "!=", constant))
    return Space(tuple(knobs), tuple(variants), tuple(rules))


@given(spaces())
@settings(max_examples=60, deadline=None)
def test_any_space_survives_its_file(space: Space) -> None:
    assert parse_space(space.to_toml()) == space


@given(st.text(alphabet=st.sampled_from("[]{}=.\"'\n knobsvalue12rules")))
@settings(max_examples=100, deadline=None)
def test_any_text_is_a_space_or_a_space_error(text: str) -> None:
    try:
        space = parse_space(text)
    except SpaceError:
        return  # any other error fails the test
    assert space.knobs or space.variants


def test_each_known_flag_takes_some_value_and_refuses_some() -> None:
    samples: list[FlagValue] = [True, "auto", 1, 0, 0.5, -1.0]
    for name, kind in KNOWN.items():
        verdicts = {kind.accepts(value) for value in samples}
        assert verdicts == {True, False}, name
    assert Kind.NATURAL.accepts(0)
    assert not Kind.COUNT.accepts(0)
    assert Kind.AMOUNT.accepts(0.0)
