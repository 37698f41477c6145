import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.replay.body import encode_bodies
from advisor.replay.prompts import block_of_tokens, prompt_encoder
from advisor.terms.errors import InputError, ReplayError
from advisor.terms.profile import PlannedRequest

IDS = st.integers(0, 2**63 - 1)


def planned(
    input_length: int, block_ids: tuple[int, ...], output_length: int = 7
) -> PlannedRequest:
    return PlannedRequest(0, input_length, output_length, block_ids, counted=True)


def prompt(request: PlannedRequest, block_tokens: int, vocab_size: int = 32_000) -> list[int]:
    encode = prompt_encoder(block_tokens=block_tokens, vocab_size=vocab_size)
    tokens: list[int] = json.loads(b"[" + encode(request) + b"]")
    return tokens


@settings(deadline=None)
@given(data=st.data(), block_tokens=st.integers(1, 40), input_length=st.integers(1, 200))
def test_a_prompt_has_exactly_its_length_within_the_vocabulary(
    data: st.DataObject, block_tokens: int, input_length: int
) -> None:
    blocks = -(-input_length // block_tokens)
    ids = data.draw(st.lists(IDS, min_size=blocks, max_size=blocks))
    vocab_size = data.draw(st.integers(102, 200_000))
    tokens = prompt(planned(input_length, tuple(ids)), block_tokens, vocab_size)
    assert len(tokens) == input_length
    assert all(100 <= token < vocab_size for token in tokens)


@settings(deadline=None)
@given(
    shared=st.lists(IDS, min_size=1, max_size=4),
    tails=st.lists(IDS, min_size=2, max_size=2, unique=True),
)
def test_equal_ids_share_their_prefix_and_other_ids_do_not(
    shared: list[int], tails: list[int]
) -> None:
    block = 16
    length = block * (len(shared) + 1)
    first, second = (prompt(planned(length, (*shared, tail)), block) for tail in tails)
    edge = block * len(shared)
    assert first[:edge] == second[:edge]
    assert first[edge:] != second[edge:]


@settings(deadline=None)
@given(block_id=IDS, cut=st.integers(1, 16))
def test_a_partly_filled_block_is_the_start_of_the_full_one(block_id: int, cut: int) -> None:
    full = prompt(planned(16, (block_id,)), 16)
    assert prompt(planned(cut, (block_id,)), 16) == full[:cut]


def test_tokens_are_the_same_in_every_process_and_release() -> None:
    """A stored replay can be sent again: these values are part of the format."""
    tokens = block_of_tokens(2**62 + 1, block_tokens=4, vocab_size=32_000)
    assert tokens.tolist() == [14538, 15235, 4598, 26517]


def test_bodies_force_the_output_and_ask_for_counts() -> None:
    (body,) = encode_bodies([planned(5, (1, 2))], "tiny", block_tokens=4, vocab_size=500)
    fields = json.loads(body)
    assert len(fields.pop("prompt")) == 5
    assert fields == {
        "model": "tiny",
        "max_tokens": 7,
        "min_tokens": 7,
        "ignore_eos": True,
        "temperature": 0,
        "seed": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }


@pytest.mark.parametrize("ids", [(), (1,), (1, 2, 3)])
def test_block_ids_that_do_not_fit_the_length_are_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(ReplayError, match=f"{len(ids)} block ids for 5 prompt tokens"):
        prompt(planned(5, ids), 4)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ReplayError, match="for 0 prompt tokens"):
        prompt(replace(planned(1, ()), input_length=0), 4)


@pytest.mark.parametrize(("size", "floor"), [(100, 100), (101, 100), (50, 100), (10, -1)])
def test_a_vocabulary_without_a_choice_is_refused(size: int, floor: int) -> None:
    with pytest.raises(InputError, match=f"vocab_size: {size} .* floor at {floor}"):
        prompt_encoder(block_tokens=4, vocab_size=size, floor=floor)


def test_blocks_without_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="block_tokens: 0 must be at least 1"):
        prompt_encoder(block_tokens=0, vocab_size=500)
