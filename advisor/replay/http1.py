"""HTTP/1.1, as much of it as one POST and its answer need (RFC 9112).

Requests are encoded before the load, answers decoded after it; nothing here is timed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

_HEAD_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |$)")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?", re.DOTALL)
#: Longer heads and chunk-size lines are no server's; a limit keeps garbage from being collected.
_LONGEST_HEAD_BYTES = 64 * 1024


def encode_request(host: str, path: str, body: bytes) -> bytes:
    """The whole request; `host` as the address names it, with the port.

    The connection is for this request alone, so the server is asked to close it afterwards: the
    end of the stream then is the end of the answer, and no framing is read while times are taken.
    """
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nAccept-Encoding: identity\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


@dataclass(slots=True)
class Response:
    """What one connection brought."""

    #: None before the end of the head
    status: int | None = None
    #: (number of the read, bytes of the body that it brought)
    body: list[tuple[int, bytes]] = field(default_factory=list)
    #: the framing says that nothing is missing; only the closed connection can where it is silent
    complete: bool = False
    #: what was not HTTP
    malformed: str | None = None

    def text(self, most: int) -> str:
        """The first bytes of the body, for a person."""
        return b"".join(piece for _, piece in self.body)[:most].decode(errors="replace")


def decode_response(reads: Sequence[bytes], *, closed: bool) -> Response:
    """Read an answer from what `recv` returned, in order; `closed` when the server ended it."""
    response = Response()
    head, number, rest = _split_head(reads)
    if head is None:
        if rest and not b"HTTP/1.".startswith(rest[:7]):
            response.malformed = f"not HTTP/1.1: {rest[:80]!r}"
        return response
    found = _STATUS.match(head)
    if found is None:
        response.malformed = f"not HTTP/1.1: {head[:80]!r}"
        return response
    response.status = int(found[1])
    try:
        body = _framing(head)
        _collect(response, body, [(number, rest), *enumerate(reads[number + 1 :], number + 1)])
    except _Malformed as exc:
        response.malformed = str(exc)
        return response
    response.complete = closed if body.complete is None else body.complete
    return response


def _collect(response: Response, body: "_Body", reads: list[tuple[int, bytes]]) -> None:
    for index, read in reads:
        piece = body.feed(read)
        if piece:
            response.body.append((index, piece))


def _split_head(reads: Sequence[bytes]) -> tuple[bytes | None, int, bytes]:
    """(head, number of the read in which it ends, rest of that read); None and all when open."""
    so_far = b""
    for number, read in enumerate(reads):
        so_far += read
        while (end := so_far.find(_HEAD_END)) >= 0:
            head, so_far = so_far[:end], so_far[end + len(_HEAD_END) :]
            found = _STATUS.match(head)
            if found is None or not found[1].startswith(b"1"):  # an interim answer: 100, 103
                return head, number, so_far
        if len(so_far) > _LONGEST_HEAD_BYTES or not _may_be_http(so_far):
            break
    return None, 0, so_far


def _may_be_http(start: bytes) -> bool:
    return start.startswith(b"HTTP/1."[: len(start)])


class _Malformed(Exception):
    """The framing is not HTTP's."""


class _Body(Protocol):
    @property
    def complete(self) -> bool | None:
        """None when only the end of the connection can tell."""
        ...

    def feed(self, read: bytes) -> bytes:
        """The bytes of the body in this read. Raises _Malformed."""
        ...


def _framing(head: bytes) -> _Body:
    """How the body ends: RFC 9112, 6.3."""
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip().lower()
    if fields.get(b"transfer-encoding", b"").endswith(b"chunked"):
        return _Chunked()
    length = fields.get(b"content-length")
    if length is None:
        return _UntilClose()
    if not length.isdigit():
        raise _Malformed(f"Content-Length is {length!r}")
    return _Sized(int(length))


class _UntilClose:
    complete = None

    def feed(self, read: bytes) -> bytes:
        return read


class _Sized:
    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def complete(self) -> bool:
        return self._left == 0

    def feed(self, read: bytes) -> bytes:
        piece = read[: self._left]
        self._left -= len(piece)
        return piece


class _Chunked:
    """RFC 9112, 7.1: size line, data, line end, …, a chunk of size 0, trailer lines."""

    def __init__(self) -> None:
        self._left = 0
        self._line = b""
        self._after_data = False
        self._in_trailer = False
        self.complete = False

    def feed(self, read: bytes) -> bytes:
        at = self._whole_chunk(read)
        if at:
            return read[at:-2]
        pieces = []
        while at < len(read) and not self.complete:
            if self._left:
                piece = read[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._after_data = not self._left
            else:
                at = self._take_line(read, at)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _whole_chunk(self, read: bytes) -> int:
        """Nearly always: the read is one chunk, and its data begin here; else 0."""
        at = read.find(b"\r\n") + 2
        left = len(read) - at - 2
        if self._line or self._left or self._after_data or self._in_trailer or left < 1:
            return 0
        size = _CHUNK_SIZE.fullmatch(read, 0, max(0, at - 2))
        whole = size is not None and int(size[1], 16) == left and read.endswith(b"\r\n")
        return at if whole else 0

    def _take_line(self, read: bytes, at: int) -> int:
        end = read.find(b"\n", at)
        if end < 0:
            self._line += read[at:]
            if len(self._line) > _LONGEST_HEAD_BYTES:
                raise _Malformed(f"a chunk's size line is {self._line[:80]!r}…")
            return len(read)
        line, self._line = (self._line + read[at:end]).removesuffix(b"\r"), b""
        self._apply(line)
        return end + 1

    def _apply(self, line: bytes) -> None:
        if self._after_data:
            if line:
                raise _Malformed(f"a chunk is longer than its size says: {line[:80]!r}")
            self._after_data = False
        elif self._in_trailer:
            self.complete = not line
        else:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise _Malformed(f"a chunk's size line is {line[:80]!r}")
            self._left = int(size[1], 16)
            self._in_trailer = self._left == 0
