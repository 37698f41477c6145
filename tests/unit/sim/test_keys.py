"""Keys of prompts: equal as far as the prompts are, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sim.blocks import BlockPool
from advisor.sim.keys import PromptKeys, extend, part, total


def flat(keys: list[range]) -> list[int]:
    return [key for span in keys for key in span]


@pytest.mark.parametrize("block_tokens", [8, 16, 24, 64])
def test_prompts_share_the_keys_of_full_blocks_within_shared_ids(block_tokens: int) -> None:
    keys = PromptKeys(BlockPool(9), 16)
    prompt = 5 * block_tokens + 3
    one = flat(keys.of(prompt, (1, 2, 3, 4, 5, 6), block_tokens))
    again = flat(keys.of(prompt, (1, 2, 3, 4, 5, 6), block_tokens))
    other = flat(keys.of(prompt, (1, 2, 3, 7, 8, 9), block_tokens))
    assert one == again
    assert len(set(one)) == len(one) == len(other) == prompt // 16
    shared = 3 * block_tokens // 16
    assert one[:shared] == other[:shared]
    assert not set(one) & set(other[shared:])


def test_a_prompt_without_ids_has_no_keys() -> None:
    assert PromptKeys(BlockPool(9), 16).of(100, (), 1) == []


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=6),
    st.integers(-3, 20),
    st.integers(-3, 20),
)
def test_part_is_a_slice_of_all_keys(spans: list[tuple[int, int]], first: int, last: int) -> None:
    keys: list[range] = []
    for start, length in spans:
        extend(keys, range(start, start + length))
    everything = [key for start, length in spans for key in range(start, start + length)]
    assert flat(keys) == everything
    assert total(keys) == len(everything)
    assert flat(part(keys, first, last)) == everything[max(first, 0) : max(last, 0)]
