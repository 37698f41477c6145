"""Nouns to JSON and Traces to bytes, and back, exactly."""

import json
import math
import struct
import zlib
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from advisor.measure.codec import from_bytes, to_bytes
from advisor.measure.curves import Curves, curves
from advisor.store.schema import JsonValue
from advisor.terms.errors import LedgerError
from advisor.terms.traces import ClientAudit, Traces

T = TypeVar("T")

#: First byte of encoded traces; another layout gets another number.
TRACES_VERSION = 1

#: In the order they are written: name, dtype on disk, stored as differences of neighbours or not.
_PER_REQUEST = (
    ("planned_ns", "<i8", True),
    ("sent_ns", "<i8", True),
    ("end_ns", "<i8", True),
    ("status", "|u1", False),
    ("counted", "|b1", False),
    ("input_tokens", "<i8", True),
    ("prompt_tokens", "<i8", True),
    ("output_tokens", "<i8", True),
)
_PER_EVENT = (("event_ns", "<i8", True), ("event_tokens", "<i4", True))
_OFFSETS = ("event_offsets", "<i8", True)
_HEADER_LENGTH = struct.Struct("<I")


@cache
def _built(as_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(as_)


def _adapter(as_: type[T]) -> TypeAdapter[T]:
    kind: Any = as_
    return _built(kind)


def dump(as_: type[T], value: T) -> JsonValue:
    """A noun as JSON values; infinities become the words `inf` and `-inf`.

    Raises LedgerError that names the field when a number is NaN: what is missing is None.
    """
    return _finite(_adapter(as_).dump_python(value, mode="json"), as_.__name__)


def load(as_: type[T], data: JsonValue) -> T:
    """The noun that `dump` wrote. Raises LedgerError when the data do not fit it."""
    try:
        return _adapter(as_).validate_python(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        name = as_.__name__
        raise LedgerError(f"ledger: cannot read {name}: {where}: {first['msg']}") from exc


def _finite(value: JsonValue, path: str) -> JsonValue:
    if isinstance(value, dict):
        return {key: _finite(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise LedgerError(f"ledger: {path} is NaN; a missing number must be None")
        return "inf" if value > 0 else "-inf"
    return value


def encode_traces(traces: Traces) -> bytes:
    """A version byte, then zlib over a JSON header and one column after the other.

    Integers are stored as differences of neighbours and then by planes of equal byte position:
    times grow slowly, so the high planes are nearly constant and cost next to nothing.
    Raises LedgerError when a column's length or range does not fit.
    """
    requests, events = len(traces), len(traces.event_ns)
    header = json.dumps(
        {
            "requests": requests,
            "events": events,
            "window_start_ns": traces.window_start_ns,
            "window_end_ns": traces.window_end_ns,
            "audit": None if traces.audit is None else dump(ClientAudit, traces.audit),
        }
    ).encode()
    parts = [_HEADER_LENGTH.pack(len(header)), header]
    for (name, dtype, delta), length in _columns(requests, events):
        parts.append(_encode_column(name, getattr(traces, name), np.dtype(dtype), delta, length))
    return bytes([TRACES_VERSION]) + zlib.compress(b"".join(parts), level=3)


def decode_traces(data: bytes) -> Traces:
    """The Traces that `encode_traces` was given. Raises LedgerError for damaged bytes."""
    if not data or data[0] != TRACES_VERSION:
        found = data[0] if data else "nothing"
        raise LedgerError(
            f"traces: layout {found} is unknown; this program reads {TRACES_VERSION}"
        )
    try:
        raw = zlib.decompress(data[1:])
        header, position = _header(raw)
        columns = {}
        for (name, dtype, delta), length in _columns(header["requests"], header["events"]):
            kind = np.dtype(dtype)
            size = kind.itemsize * length
            columns[name] = _decode_column(raw[position : position + size], kind, delta)
            position += size
        audit = header["audit"]
        start_ns, end_ns = header["window_start_ns"], header["window_end_ns"]
    except (zlib.error, struct.error, ValueError, KeyError) as exc:
        raise LedgerError(f"traces: the stored bytes are damaged: {exc}") from exc
    return Traces(
        **columns,
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        audit=None if audit is None else load(ClientAudit, audit),
    )


def encode_curves(traces: Traces) -> bytes:
    """What verdicts are computed from. Raises LedgerError for traces that make no sense."""
    try:
        return to_bytes(curves(traces))
    except ValueError as exc:
        raise LedgerError(f"ledger: cannot store a replay: {exc}") from exc


def decode_curves(data: bytes) -> Curves:
    """Raises LedgerError for damaged bytes."""
    try:
        return from_bytes(data)
    except ValueError as exc:
        raise LedgerError(f"ledger: {exc}") from exc


def _header(raw: bytes) -> tuple[dict[str, Any], int]:
    (length,) = _HEADER_LENGTH.unpack_from(raw)
    end = _HEADER_LENGTH.size + length
    return json.loads(raw[_HEADER_LENGTH.size : end]), end


def _columns(requests: int, events: int) -> list[tuple[tuple[str, str, bool], int]]:
    return [
        *((column, requests) for column in _PER_REQUEST),
        (_OFFSETS, requests + 1),
        *((column, events) for column in _PER_EVENT),
    ]


def _encode_column(
    name: str, values: NDArray[Any], kind: np.dtype[Any], delta: bool, length: int
) -> bytes:
    if values.shape != (length,):
        raise LedgerError(f"traces: {name} has shape {values.shape}, expected ({length},)")
    column = values.astype(kind)
    if not np.array_equal(column, values):
        raise LedgerError(f"traces: {name} ({values.dtype}) does not fit {kind}")
    if delta:
        # wraps around at the ends of the range, and the sum wraps back: exact for any value
        column = np.concatenate([column[:1], column[1:] - column[:-1]])
    planes = column.view(np.uint8).reshape(length, kind.itemsize)
    return planes.T.tobytes()


def _decode_column(raw: bytes, kind: np.dtype[Any], delta: bool) -> NDArray[Any]:
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(kind.itemsize, -1)
    column = np.ascontiguousarray(planes.T).view(kind).reshape(-1)
    native = column.astype(kind.newbyteorder("="))
    return np.cumsum(native, dtype=native.dtype) if delta else native
