"""Token events out of a server-sent-event stream, from the stored reads of one response.

Runs after the load, never on the loop that stamps times. Line rules: WHATWG HTML, 9.2
"Server-sent events"; chunk fields: vLLM 0.33.0 `/v1/completions`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Where a chat chunk can carry generated text; a role alone is none.
_CHANNELS = ("content", "reasoning", "reasoning_content", "tool_calls", "function_call", "refusal")


class EventLines:
    """Bytes in, the `data` of each complete event out; reads may be split anywhere."""

    def __init__(self) -> None:
        #: the unfinished line, in parts, so that a long one costs no repeated copying
        self._partial: list[bytes] = []
        self._data: list[bytes] = []
        self._ended_in_cr = False
        self._at_start = True

    def feed(self, read: bytes) -> list[bytes]:
        """The events that this read completes."""
        if self._is_one_event(read):
            return [read[6:-2]]
        events = []
        # after a line that ended at a CR, a LF is the rest of the same line end
        text = read.removeprefix(b"\n") if self._ended_in_cr else read
        for piece in text.splitlines(keepends=True):
            if not piece.endswith((b"\n", b"\r")):
                self._partial.append(piece)
                continue
            line = b"".join((*self._partial, piece.rstrip(b"\r\n")))
            self._partial.clear()
            event = self._take(line)
            if event is not None:
                events.append(event)
        if read:
            self._ended_in_cr = read.endswith(b"\r")
        return events

    def _is_one_event(self, read: bytes) -> bool:
        """Nearly always: the read is one event of one line, and nothing is open before it."""
        return (
            read.startswith(b"data: ")
            and read.endswith(b"\n\n")
            and read.count(b"\n") == 2
            and b"\r" not in read
            and not (self._partial or self._data or self._ended_in_cr)
        )

    def _take(self, line: bytes) -> bytes | None:
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data.clear()
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        return None


@dataclass(slots=True)
class Stream:
    """What one response said."""

    #: the number of the read that completed the event
    event_reads: list[int] = field(default_factory=list)
    #: tokens per event, each >= 1
    event_tokens: list[int] = field(default_factory=list)
    #: the sum of `event_tokens`
    tokens: int = 0
    #: as the server counted the prompt; None when it did not say
    prompt_tokens: int | None = None
    #: whether `[DONE]` came
    done: bool = False
    #: the first error event, or the first event of another shape than a completion chunk
    error: str | None = None
    #: chunks with text for which the server gave no token count
    uncounted: int = 0


def parse_stream(reads: Iterable[tuple[int, bytes]]) -> Stream:
    """The token events of one response from its (number, bytes) reads, in order.

    An event is a chunk that carries at least one generated token. Its tokens are the ids in it
    or, without ids, the growth of the cumulative usage: never the number of chunks or reads.
    An event cut off by the stream's end is dropped, as the standard demands.
    """
    stream = Stream()
    lines = EventLines()
    for number, read in reads:
        for data in lines.feed(read):
            if data.strip() and not stream.done:
                _apply(stream, number, data)
    return stream


class _Chunk(NamedTuple):
    has_choices: bool
    has_text: bool
    #: tokens by their ids, and the server's cumulative counts; None where it gave none
    ids: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    error: str | None


def _apply(stream: Stream, number: int, data: bytes) -> None:
    if data.strip() == b"[DONE]":
        stream.done = True
        return
    try:
        chunk = _read_chunk(json.loads(data))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        shown = data[:200].decode(errors="replace")
        stream.error = stream.error or f"not a completion chunk: {shown}"
        return
    if chunk.error is not None:
        stream.error = stream.error or chunk.error
        return
    if chunk.prompt_tokens is not None:
        stream.prompt_tokens = chunk.prompt_tokens
    if chunk.has_choices:
        _count(stream, number, chunk)


def _count(stream: Stream, number: int, chunk: _Chunk) -> None:
    tokens = chunk.ids
    if tokens is None and chunk.completion_tokens is not None:
        tokens = chunk.completion_tokens - stream.tokens
    if tokens is None:
        stream.uncounted += chunk.has_text
    elif tokens > 0:
        stream.event_reads.append(number)
        stream.event_tokens.append(tokens)
        stream.tokens += tokens


def _read_chunk(chunk: Any) -> _Chunk:
    """Whatever has another shape raises one of the errors that `_apply` names."""
    error = chunk.get("error")
    if error is None and chunk.get("object") == "error":
        error = chunk.get("message")
    usage = chunk.get("usage") or {}
    choices = chunk.get("choices") or ()
    ids: int | None = None
    has_text = False
    for choice in choices:
        in_chunk = choice.get("token_ids")
        if in_chunk is not None:
            ids = len(in_chunk) + (ids or 0)
        has_text = has_text or bool(choice.get("text")) or _speaks(choice.get("delta"))
    return _Chunk(
        len(choices) > 0,
        has_text,
        ids,
        _whole(usage.get("prompt_tokens")),
        _whole(usage.get("completion_tokens")),
        None if error is None else str(error)[:500],
    )


def _speaks(delta: Any) -> bool:
    """Whether a chat chunk says anything, on any channel."""
    return delta is not None and any(delta.get(channel) for channel in _CHANNELS)


def _whole(count: Any) -> int | None:
    if count is None:
        return None
    if not isinstance(count, int) or count < 0:
        raise ValueError(count)
    return count
