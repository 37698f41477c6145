import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.replay.sse import EventLines, Stream, parse_stream
from tests.unit.replay.golden import DONE, chunk, event, usage


def read_whole(data: bytes) -> Stream:
    return parse_stream([(1, data)])


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def events_of(pieces: list[bytes]) -> list[bytes]:
    lines = EventLines()
    return [event for piece in pieces for event in lines.feed(piece)]


CUTS = st.lists(st.integers(0, 10_000), max_size=12)
PIECES = st.sampled_from(
    [
        chunk(1, cumulative=1, prompt=9),
        chunk(3, ids=False, cumulative=8),
        chunk(2),
        chunk(0),
        usage(9, 12),
        event({"error": {"message": "oh nö"}}),
        b": ping\n\n",
        b"\n",
        b"event: x\nid: 3\nretry: 10\n\n",
        b"data:\n\n",
        b'data: {"choices":\ndata: []}\n\n',
        b"data: \xff\n\n",
    ]
)
ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(deadline=None)
@given(pieces=st.lists(PIECES, max_size=10), ending=ENDINGS, cuts=CUTS)
def test_any_split_of_any_stream_gives_the_same_events(
    pieces: list[bytes], ending: bytes, cuts: list[int]
) -> None:
    data = b"".join(pieces).replace(b"\n", ending) + DONE
    reads = [(7, part) for part in split(data, cuts)]
    whole, parts = parse_stream([(7, data)]), parse_stream(reads)
    assert (whole.event_reads, whole.event_tokens) == (parts.event_reads, parts.event_tokens)
    assert (whole.prompt_tokens, whole.error) == (parts.prompt_tokens, parts.error)
    assert (whole.done, whole.uncounted) == (parts.done, parts.uncounted) == (True, 0)


@settings(deadline=None)
@given(data=st.binary(max_size=200), cuts=CUTS)
def test_any_split_of_any_bytes_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert events_of(split(data, cuts)) == events_of([data])


@settings(deadline=None)
@given(
    lines=st.lists(st.text("ab: \u20ac", min_size=1).map(str.encode), max_size=5), ending=ENDINGS
)
def test_data_lines_of_one_event_are_joined(lines: list[bytes], ending: bytes) -> None:
    data = b"".join(b"data: " + line + ending for line in lines) + ending
    assert events_of([data]) == ([b"\n".join(lines)] if lines else [])


def test_a_line_end_split_between_its_two_bytes_is_one_line_end() -> None:
    assert events_of([b"data: a\r", b"\ndata: b\r", b"\n\r\n"]) == [b"a\nb"]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert events_of([b"\xef\xbb", b"\xbfdata: a\n\n", b"\xef\xbb\xbfdata: b\n\n"]) == [b"a"]


def test_an_event_without_data_is_no_error() -> None:
    stream = read_whole(b"data:\n\n" + chunk(1) + DONE)
    assert (stream.tokens, stream.error) == (1, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "usage", "error", "token_ids", "completion_tokens"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(body=JSON)
def test_json_of_any_shape_is_read_or_named_as_an_error(body: object) -> None:
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    stream = read_whole(data)
    assert stream.tokens == sum(stream.event_tokens)
    assert all(tokens > 0 for tokens in stream.event_tokens)
    if not isinstance(body, dict):
        assert stream.error is not None
        assert stream.error.startswith("not a completion chunk: ")


def test_tokens_are_counted_by_ids_not_by_chunks_or_reads() -> None:
    data = chunk(1) + chunk(4) + chunk(2)
    assert read_whole(data).event_tokens == [1, 4, 2]


def test_without_ids_the_growth_of_the_usage_counts() -> None:
    data = b"".join(chunk(1, ids=False, cumulative=count) for count in (1, 4, 4, 9))
    assert read_whole(data).event_tokens == [1, 3, 5]


def test_a_role_chunk_an_empty_chunk_and_a_usage_chunk_are_no_events() -> None:
    role = event({"choices": [{"index": 0, "text": "", "token_ids": []}]})
    empty = event({"choices": [{"index": 0, "text": ""}]})
    stream = parse_stream(
        enumerate([role, empty, chunk(1), chunk(1), usage(33, 2), DONE], start=10)
    )
    assert stream.event_reads == [12, 13]
    assert stream.prompt_tokens == 33
    assert stream.done
    assert (stream.error, stream.uncounted) == (None, 0)


def test_a_token_without_text_is_an_event() -> None:
    data = event({"choices": [{"index": 0, "text": "", "token_ids": [5]}]})
    assert read_whole(data).event_tokens == [1]


def test_an_event_has_the_stamp_of_the_read_that_completed_it() -> None:
    first, second = chunk(1), chunk(1)
    stream = parse_stream([(10, first[:20]), (20, first[20:] + second[:-1]), (30, second[-1:])])
    assert stream.event_reads == [20, 30]


def test_an_event_cut_off_by_the_end_is_dropped() -> None:
    assert read_whole(chunk(1) + chunk(1)[:-1]).event_tokens == [1]


def test_what_follows_done_is_ignored() -> None:
    stream = read_whole(chunk(1) + DONE + chunk(1))
    assert stream.done
    assert stream.tokens == 1


def test_a_missing_done_is_noted() -> None:
    assert not read_whole(chunk(1)).done


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "engine died", "code": 500}}, "engine died"),
        ({"object": "error", "message": "too long"}, "too long"),
        ({"error": "plain"}, "plain"),
    ],
)
def test_an_error_event_is_kept_and_earlier_tokens_with_it(body: object, said: str) -> None:
    stream = read_whole(chunk(2) + event(body) + DONE)
    assert stream.error is not None
    assert said in stream.error
    assert stream.tokens == 2


def test_text_without_any_count_is_not_taken_for_one_token() -> None:
    stream = read_whole(chunk(1, ids=False))
    assert (stream.tokens, stream.uncounted) == (0, 1)


def delta(said: dict[str, object], ids: list[int] | None) -> bytes:
    choice = {"index": 0, "delta": said, "finish_reason": None, "token_ids": ids}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


def test_every_channel_of_a_chat_counts_and_a_role_alone_does_not() -> None:
    stream = parse_stream(
        enumerate(
            [
                delta({"role": "assistant", "content": ""}, None),
                delta({"reasoning": "hm"}, [5]),
                delta({"reasoning_content": "hm"}, [6, 7]),
                delta({"tool_calls": [{"index": 0}]}, [8]),
                delta({"content": "yes"}, [9]),
                usage(33, 5) + DONE,
            ]
        )
    )
    assert (stream.event_reads, stream.event_tokens) == ([1, 2, 3, 4], [1, 2, 1, 1])
    assert (stream.prompt_tokens, stream.error, stream.uncounted) == (33, None, 0)


@pytest.mark.parametrize("channel", ["content", "reasoning", "reasoning_content", "refusal"])
def test_text_of_a_chat_without_any_count_is_not_taken_for_one_token(channel: str) -> None:
    stream = read_whole(delta({channel: "yes"}, None))
    assert (stream.tokens, stream.uncounted) == (0, 1)
