"""The rows of a profile file: JSONL text to requests, and back.

A row is one JSON object: `timestamp` (ms), `input_length`, `output_length` (tokens) and,
optionally, `hash_ids` (one id per block of the prompt), `session_id` and `pause` (ms). All names
but the last are those of the Mooncake traces and of vLLM's timed_trace data set, so that other
tools read our files.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

from advisor.terms.errors import ProfileError
from advisor.terms.profile import Request

#: Ten million tokens, the longest context any model card claims (Llama 4 Scout): beyond it a
#: length is a mistake of unit, and planning its blocks would only fill the memory.
MAX_TOKENS = 10_000_000
#: Times are int64 nanoseconds everywhere; this still holds milliseconds since 1970.
MAX_TIMESTAMP_MS = 9_000_000_000_000
#: Block ids are unsigned 64-bit numbers; traces made of hashes use the whole range.
MAX_HASH_ID = 2**64 - 1

_NS_PER_MS = 1_000_000
_NO_INPUT = "input_length is 0"
_NO_OUTPUT = "output_length is 0"


@dataclass(frozen=True, slots=True)
class Rows:
    """The usable rows of one file, and how many were not."""

    requests: tuple[Request, ...]
    #: (reason, rows), reasons in alphabetical order
    dropped: tuple[tuple[str, int], ...]


def parse_rows(path: Path, text: str, block_tokens: int | None) -> Rows:
    """Read JSONL text; `path` is for the messages only.

    `block_tokens` is the prompt tokens per hash id, None when nobody has told. Rows of zero
    prompt or output tokens are left out and counted. Raises ProfileError, naming file, row
    (the line's number, from 1) and field, for anything that cannot be used as it stands.
    """
    return without_empty(path, _checked(path, text, block_tokens))


def without_empty(path: Path, requests: Iterable[Request]) -> Rows:
    """Leave out and count what has no prompt or no output; raises ProfileError if all is."""
    usable: list[Request] = []
    dropped: Counter[str] = Counter()
    for request in requests:
        reason = _unusable(request)
        if reason is None:
            usable.append(request)
        else:
            dropped[reason] += 1
    if not usable:
        raise ProfileError(f"profile {path}: {_no_rows(dropped)}")
    return Rows(tuple(usable), tuple(sorted(dropped.items())))


def _checked(path: Path, text: str, block_tokens: int | None) -> Iterator[Request]:
    last_ns = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        row = _Row(path, number, line)
        request = row.request()
        if request.arrival_ns < last_ns:
            raise row.error("timestamp", "a time not before that of the row above")
        last_ns = request.arrival_ns
        if _unusable(request) is None:
            row.check_blocks(request, block_tokens)
        yield request


def _no_rows(dropped: Mapping[str, int]) -> str:
    if not dropped:
        return "the file has no rows; expected one request per row"
    reasons = ", ".join(f"{rows} where {reason}" for reason, rows in sorted(dropped.items()))
    return f"no usable rows, all were dropped ({reasons}); expected lengths of 1 or more"


def _unusable(request: Request) -> str | None:
    if request.input_length == 0:
        return _NO_INPUT
    return _NO_OUTPUT if request.output_length == 0 else None


def _decimal(word: str) -> Decimal | float:
    """An exponent beyond Decimal's comes as infinity or 0.0, which no field takes."""
    try:
        return Decimal(word)
    except ArithmeticError:
        return float(word)


class _Row:
    """One line of the file, with what it takes to complain about it."""

    def __init__(self, path: Path, number: int, line: str) -> None:
        self._where = f"profile {path}, row {number}"
        try:
            # Decimal keeps every digit of a timestamp; a float would round epoch milliseconds
            fields = json.loads(line, parse_float=_decimal, object_pairs_hook=_once)
        except (ValueError, RecursionError) as exc:
            raise ProfileError(
                f"{self._where}: not JSON: {_brief(line)} ({_brief(exc)}); "
                "expected one JSON object per line"
            ) from exc
        if not isinstance(fields, dict):
            raise ProfileError(f"{self._where}: {_brief(line)} is not a JSON object")
        self._fields = fields

    def error(self, field: str, expected: str) -> ProfileError:
        if field not in self._fields:
            return ProfileError(f"{self._where}: {field} is missing; expected {expected}")
        value = self._fields[field]
        shown = str(value) if isinstance(value, Decimal) else repr(value)
        return ProfileError(f"{self._where}: {field} is {_brief(shown)}; expected {expected}")

    def request(self) -> Request:
        return Request(
            arrival_ns=self._arrival_ns(),
            input_length=self._length("input_length"),
            output_length=self._length("output_length"),
            hash_ids=self._hash_ids(),
            session_id=self._session_id(),
            pause_ns=self._pause_ns(),
        )

    def check_blocks(self, request: Request, block_tokens: int | None) -> None:
        if self._fields.get("hash_ids") is None:
            return
        if block_tokens is None:
            raise ProfileError(
                f"{self._where}: hash_ids are given but the block size is not; expected "
                "block_tokens = N in the TOML file beside the profile"
            )
        blocks = -(-request.input_length // block_tokens)
        if len(request.hash_ids) != blocks:
            raise ProfileError(
                f"{self._where}: hash_ids has {len(request.hash_ids)} ids; expected {blocks}, "
                f"{request.input_length} prompt tokens in blocks of {block_tokens}"
            )

    def _arrival_ns(self) -> int:
        return self._milliseconds("timestamp", "in order")

    def _pause_ns(self) -> int | None:
        if self._fields.get("pause") is None:
            return None
        if self._session_id() is None:
            raise self.error("pause", "a session_id beside it")
        return self._milliseconds("pause", "after the end of the session's answer before")

    def _milliseconds(self, field: str, what: str) -> int:
        """As nanoseconds."""
        value = self._fields.get(field)
        # NaN and Infinity, which Python's JSON reads though the standard has no such words,
        # come as float and are refused here; bool is an int to Python, not to a reader
        if type(value) is int and 0 <= value <= MAX_TIMESTAMP_MS:
            return value * _NS_PER_MS
        if type(value) is Decimal and 0 <= value <= MAX_TIMESTAMP_MS:
            return int((value * _NS_PER_MS).to_integral_value())
        raise self.error(field, f"milliseconds, a number from 0 to {MAX_TIMESTAMP_MS}, {what}")

    def _length(self, field: str) -> int:
        value = self._fields.get(field)
        if type(value) is int and 0 <= value <= MAX_TOKENS:
            return value
        raise self.error(field, f"tokens, an integer from 0 to {MAX_TOKENS}")

    def _hash_ids(self) -> tuple[int, ...]:
        value = self._fields.get("hash_ids")
        if value is None:
            return ()
        if type(value) is list and all(type(i) is int and 0 <= i <= MAX_HASH_ID for i in value):
            return tuple(value)
        raise self.error("hash_ids", "a list of integers from 0 to 2**64 - 1, one per block")

    def _session_id(self) -> str | None:
        value = self._fields.get("session_id")
        if value is None or isinstance(value, str):
            return value
        raise self.error("session_id", "a string, or no such field")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Of two values for one field nobody knows which was meant."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for name, count in Counter(n for n, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice} is given twice")
    return fields


def _brief(value: object) -> str:
    """One line of at most 80 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def to_jsonl(requests: Iterable[Request]) -> bytes:
    """The canonical bytes of a profile file: `parse_rows` reads back the very same requests."""
    return "".join(_line(request) for request in requests).encode()


def _line(request: Request) -> str:
    parts = [
        f'"timestamp":{milliseconds(request.arrival_ns)}',
        f'"input_length":{request.input_length}',
        f'"output_length":{request.output_length}',
    ]
    if request.hash_ids:
        parts.append(f'"hash_ids":[{",".join(map(str, request.hash_ids))}]')
    if request.session_id is not None:
        parts.append(f'"session_id":{json.dumps(request.session_id)}')
    if request.pause_ns is not None:
        parts.append(f'"pause":{milliseconds(request.pause_ns)}')
    return "{" + ",".join(parts) + "}\n"


def milliseconds(ns: int) -> str:
    """Nanoseconds as decimal milliseconds, exactly: 1_500_000 -> "1.5"."""
    whole, rest = divmod(ns, _NS_PER_MS)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".") if rest else str(whole)


def fingerprint(requests: Sequence[Request]) -> str:
    """sha256 of the canonical bytes, which is what the file will have once written."""
    return sha256(to_jsonl(requests)).hexdigest()
