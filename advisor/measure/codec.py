"""Curves as bytes, and back, exactly.

Layout, little-endian: version byte; header (requests, window_ns, output_tokens, total_tokens,
blocks); then for each metric in the order of `Metric` its sample count, its kind and a zlib
stream. The stream holds the block offsets, the values and the requests. Values are stored as the
differences of their IEEE-754 bit patterns, which rise with the value for numbers from 0 to
+inf, so that ties become zeros and nothing is rounded; all columns are split into byte planes,
where the high ones are constant.
"""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from advisor.measure.curves import Curve, Curves
from advisor.terms.target import Metric
from advisor.terms.traces import Int64

VERSION = 1
_HEADER = struct.Struct("<IqqqI")
_SECTION = struct.Struct("<IBI")
_OWN = 0
#: every event carried one token, so the token gaps are the gaps
_AS_ITL = 1


def to_bytes(curves: Curves) -> bytes:
    """Pack; about one byte a gap when steps are shared by many streams, a few otherwise."""
    blocks = len(curves.by_metric[Metric.ERRORS].totals)
    parts = [
        bytes([VERSION]),
        _HEADER.pack(
            curves.requests, curves.window_ns, curves.output_tokens, curves.total_tokens, blocks
        ),
    ]
    gaps = curves.by_metric[Metric.ITL]
    for metric in Metric:
        curve = curves.by_metric[metric]
        if metric is Metric.TOKEN_ITL and _same(curve, gaps):
            parts.append(_SECTION.pack(len(curve), _AS_ITL, 0))
            continue
        stream = zlib.compress(_pack(curve), 1)
        parts += [_SECTION.pack(len(curve), _OWN, len(stream)), stream]
    return b"".join(parts)


def from_bytes(data: bytes) -> Curves:
    """Unpack. Raises ValueError for another version, or bytes that are cut or damaged."""
    if not data or data[0] != VERSION:
        found = f"version {data[0]}" if data else "no bytes"
        raise ValueError(f"curves: {found}; this program reads version {VERSION}")
    try:
        return _unpack_all(data)
    except (struct.error, zlib.error) as exc:
        raise ValueError(f"curves: the stored bytes are damaged: {exc}") from exc


def _unpack_all(data: bytes) -> Curves:
    requests, window_ns, output, total, blocks = _HEADER.unpack_from(data, 1)
    position = 1 + _HEADER.size
    by_metric: dict[Metric, Curve] = {}
    for metric in Metric:
        count, kind, length = _SECTION.unpack_from(data, position)
        position += _SECTION.size
        if kind == _AS_ITL:
            by_metric[metric] = by_metric[Metric.ITL]
            continue
        raw = zlib.decompress(data[position : position + length])
        by_metric[metric] = _unpack(raw, count, blocks)
        position += length
    return Curves(by_metric, requests, window_ns, output, total)


def _same(one: Curve, other: Curve) -> bool:
    pairs = (
        (one.values, other.values),
        (one.request, other.request),
        (one.offsets, other.offsets),
    )
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)


def _pack(curve: Curve) -> bytes:
    bits = curve.values.astype("<f8").view("<i8")
    return (
        curve.offsets.astype("<i8").tobytes()
        + _planes(np.diff(bits, prepend=0).astype("<i8"))
        + _planes(curve.request.astype("<i4"))
    )


def _unpack(raw: bytes, count: int, blocks: int) -> Curve:
    ends = 8 * (blocks + 1)
    if len(raw) != ends + 12 * count:
        raise ValueError(f"curves: {len(raw)} bytes where {ends + 12 * count} were written")
    steps: Int64 = _from_planes(raw[ends : ends + 8 * count], "<i8").astype(np.int64)
    return Curve(
        values=np.cumsum(steps).view(np.float64),
        request=_from_planes(raw[ends + 8 * count :], "<i4").astype(np.int32),
        offsets=np.frombuffer(raw[:ends], dtype="<i8").astype(np.int64),
    )


def _planes(column: NDArray[np.signedinteger]) -> bytes:
    """All first bytes, then all second bytes, and so on."""
    return column.view(np.uint8).reshape(-1, column.itemsize).T.tobytes()


def _from_planes(raw: bytes, dtype: str) -> NDArray[np.signedinteger]:
    size = np.dtype(dtype).itemsize
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(size, -1)
    return np.ascontiguousarray(planes.T).view(dtype).ravel()
