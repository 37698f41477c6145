from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.replay.http1 import decode_response, encode_request

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*pieces: bytes, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    sized = (f"{len(p):x}".encode() + extension + b"\r\n" + p + b"\r\n" for p in pieces)
    return b"".join(sized) + b"0\r\n" + trailer + b"\r\n"


def body_of(*reads: bytes) -> bytes:
    response = decode_response(reads, closed=True)
    assert (response.status, response.malformed, response.complete) == (200, None, True)
    return b"".join(piece for _, piece in response.body)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]


@settings(deadline=None)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 10_000), max_size=12),
    extension=st.sampled_from([b"", b";a=b", b" ;q"]),
    trailer=st.sampled_from([b"", b"X-Took: 3\r\n"]),
)
def test_any_split_of_a_chunked_answer_gives_its_body(
    pieces: list[bytes], cuts: list[int], extension: bytes, trailer: bytes
) -> None:
    data = HEAD + chunked(*pieces, extension=extension, trailer=trailer)
    assert body_of(*split(data, cuts)) == b"".join(pieces)


@settings(deadline=None)
@given(data=st.binary(max_size=120), cuts=st.lists(st.integers(0, 999), max_size=6))
def test_any_bytes_are_read_or_named_whatever_their_split(data: bytes, cuts: list[int]) -> None:
    for whole in (data, HEAD + data):
        one = decode_response([whole] if whole else [], closed=True)
        many = decode_response(split(whole, cuts), closed=True)
        assert (one.status, one.complete) == (many.status, many.complete)
        assert (one.malformed is None) == (many.malformed is None)
        assert one.text(999) == many.text(999) or one.malformed is not None


def test_each_piece_keeps_the_number_of_its_read() -> None:
    first, rest = chunked(b"one", b"two").split(b"two")
    reads = [HEAD[:9], HEAD[9:] + first, b"t", b"wo" + rest]
    response = decode_response(reads, closed=True)
    assert response.body == [(1, b"one"), (2, b"t"), (3, b"wo")]


@pytest.mark.parametrize(
    ("head", "body", "complete"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"ok", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\n", b"ok+more", True),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"ok", True),
        (HEAD, b"2\r\nok\r\n", False),
        (HEAD, b"2\r\nok\r\n0\r\n", False),
        (HEAD, b"2\r\nok\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD, b"2\r\nok\r\n0\r\n\r\n", True),
    ],
)
def test_how_an_answer_ends(head: bytes, body: bytes, complete: bool) -> None:
    response = decode_response([head + body], closed=True)
    assert response.status == 200
    assert response.text(2) == "ok"
    assert response.complete is complete


def test_an_answer_without_framing_is_complete_only_when_closed() -> None:
    assert not decode_response([b"HTTP/1.1 200 OK\r\n\r\nok"], closed=False).complete


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        HEAD + b"-2\r\nok",
        HEAD + b"0x2\r\nok",
        HEAD + b"1\r\nok\r\n",
        HEAD + b"1" * 70_000,
    ],
)
def test_what_is_not_http_is_named(data: bytes) -> None:
    assert decode_response([data], closed=True).malformed is not None


@pytest.mark.parametrize("data", [b"", b"HTT", b"HTTP/1.1 200 OK\r\nX-"])
def test_an_answer_without_its_head_has_no_status(data: bytes) -> None:
    response = decode_response([data] if data else [], closed=True)
    assert (response.status, response.malformed, response.complete) == (None, None, False)


def test_a_request_is_one_post_that_closes() -> None:
    head, _, body = encode_request("[::1]:8000", "/v1/completions", b"{}").partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/completions HTTP/1.1"
    assert {"Host: [::1]:8000", "Content-Length: 2", "Connection: close"} < set(lines)
    assert body == b"{}"
