"""Spoiled streams, as a client's parser finds them."""

import json
from collections.abc import AsyncIterator

import pytest

from advisor.replay.sse import Stream, parse_stream
from advisor.standin.faults import Fault
from advisor.standin.stream import DONE, encode, spoiled

CHUNKS = [
    encode({"choices": [{"index": 0, "text": f" {number}", "token_ids": [number]}]})
    for number in range(4)
]
USAGE = encode({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})


async def sound() -> AsyncIterator[bytes]:
    for event in (*CHUNKS, USAGE, DONE):
        yield event


async def spoil(fault: Fault) -> tuple[list[bytes], int]:
    """What is sent, and how often the connection was reset."""
    resets: list[None] = []
    sent = [piece async for piece in spoiled(sound(), fault, lambda: resets.append(None))]
    return sent, len(resets)


def parsed(sent: list[bytes]) -> Stream:
    return parse_stream(enumerate(sent))


async def test_pieces_of_one_byte_are_the_same_bytes() -> None:
    sent, _ = await spoil(Fault.SPLIT_SSE)
    assert {len(piece) for piece in sent} == {1}
    assert b"".join(sent) == b"".join((*CHUNKS, USAGE, DONE))
    stream = parsed(sent)
    assert (stream.tokens, stream.done, stream.error) == (4, True, None)


async def test_a_missing_end_leaves_the_tokens() -> None:
    sent, _ = await spoil(Fault.MISSING_DONE)
    stream = parsed(sent)
    assert (stream.tokens, stream.done, stream.error) == (4, False, None)


async def test_an_error_event_ends_the_stream() -> None:
    stream = parsed((await spoil(Fault.ERROR_EVENT))[0])
    assert (stream.tokens, stream.done) == (1, True)
    assert stream.error is not None
    assert "Internal server error" in stream.error


async def test_garbage_stands_among_sound_events() -> None:
    sent, _ = await spoil(Fault.GARBAGE_SSE)
    stream = parsed(sent)
    assert (stream.tokens, stream.done) == (4, True)
    assert stream.error is not None
    assert stream.error.startswith("not a completion chunk")
    with pytest.raises(json.JSONDecodeError):
        json.loads(sent[1].removeprefix(b"data: "))


async def test_a_reset_comes_after_the_first_event() -> None:
    sent, resets = await spoil(Fault.RESET)
    assert sent == CHUNKS[:1]
    assert resets == 1
