import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.replay.body import encode_chats, encode_probes
from advisor.replay.text import PROBE_WORDS, TextScale, fit_scale, text_encoder, words
from advisor.terms.errors import ReplayError
from advisor.terms.profile import PlannedRequest

SCALE = TextScale(overhead_tokens=11, tokens_per_word=1.25)


def planned(input_length: int, *block_ids: int) -> PlannedRequest:
    return PlannedRequest(0, input_length, 7, block_ids, counted=True)


def test_the_scale_goes_through_both_probes() -> None:
    counts = [round(11 + 1.25 * count) for count in PROBE_WORDS]
    scale = fit_scale(counts)
    assert (scale.overhead_tokens, scale.tokens_per_word) == pytest.approx((11, 1.25))


@pytest.mark.parametrize("counts", [(None, 500), (60, None), (60, 60), (500, 60)])
def test_counts_that_tell_nothing_are_refused(counts: tuple[int | None, int | None]) -> None:
    with pytest.raises(ReplayError, match="64 and 512 words came to"):
        fit_scale(counts)


@given(length=st.integers(40, 5_000), block=st.sampled_from([16, 128, 512]))
def test_a_prompt_is_as_long_as_its_words_allow(length: int, block: int) -> None:
    blocks = -(-length // block)
    prompt = text_encoder(block_tokens=block, scale=SCALE)(planned(length, *range(blocks)))
    tokens = SCALE.overhead_tokens + SCALE.tokens_per_word * len(prompt.split())
    assert abs(tokens - length) <= SCALE.tokens_per_word / 2


def test_equal_blocks_are_equal_text_and_others_are_not() -> None:
    encode = text_encoder(block_tokens=16, scale=SCALE)
    first, second = encode(planned(64, 1, 2, 3, 4)), encode(planned(64, 1, 2, 3, 5))
    shared = " ".join(words(1, 4) + words(2, 13) + words(3, 13))
    assert first.startswith(shared)
    assert second.startswith(shared)
    assert first != second


def test_words_are_the_same_in_every_process_and_release() -> None:
    assert words(2**62 + 1, 3) == words(2**62 + 1, 9)[:3] == EXPECTED


EXPECTED = ["law", "eye", "way"]


def test_a_chat_is_one_message_with_the_output_forced() -> None:
    (body,) = encode_chats([planned(64, 1, 2)], "tiny", block_tokens=32, scale=SCALE)
    fields = json.loads(body)
    (message,) = fields["messages"]
    assert message["role"] == "user"
    assert len(message["content"].split()) == round((64 - 11) / 1.25)
    assert (fields["max_tokens"], fields["min_tokens"], fields["ignore_eos"]) == (7, 7, True)
    assert "prompt" not in fields


def test_probes_have_their_words() -> None:
    few, many = (json.loads(body)["messages"][0]["content"] for body in encode_probes("m", -1))
    assert (len(few.split()), len(many.split())) == PROBE_WORDS
    assert many.startswith(few)
