"""Curves as bytes, and back, exactly.

Layout, little-endian: version byte; header (requests, window_ns, output_tokens, total_tokens,
blocks, stopped); then for each metric in the order of `Metric` its number of values, its kind,
and two zlib streams: first the block offsets, the values, how often each occurs, and the samples
of each request; then the owners. Values are stored as the differences of their IEEE-754 bit
patterns, which rise with the value for -inf and the numbers from 0 to +inf, so that nothing is
rounded; the columns are split into byte planes, where the high ones are constant.
"""

import struct
import zlib
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from advisor.measure.curves import Curve, Curves
from advisor.terms.target import Metric

VERSION = 3
_HEADER = struct.Struct("<IqqqI?")
#: values, kind, bytes of the columns, bytes of the owners
_SECTION = struct.Struct("<IBII")
_OWN = 0
#: every event carried one token, so the token gaps are the gaps
_AS_ITL = 1


def to_bytes(curves: Curves) -> bytes:
    """Pack; about one byte a gap when steps are shared by many streams, a few otherwise."""
    blocks = len(curves.by_metric[Metric.ERRORS].totals)
    parts = [
        bytes([VERSION]),
        _HEADER.pack(
            curves.requests,
            curves.window_ns,
            curves.output_tokens,
            curves.total_tokens,
            blocks,
            curves.stopped,
        ),
    ]
    gaps = curves.by_metric[Metric.ITL]
    for metric in Metric:
        curve = curves.by_metric[metric]
        distinct = len(curve.values)
        if metric is Metric.TOKEN_ITL and curve is gaps:
            parts.append(_SECTION.pack(distinct, _AS_ITL, 0, 0))
            continue
        stream = zlib.compress(_pack(curve), 1)
        section = _SECTION.pack(distinct, _OWN, len(stream), len(curve.owners))
        parts += [section, stream, curve.owners]
    return b"".join(parts)


def is_current(data: bytes) -> bool:
    """Whether `from_bytes` reads this layout; other ones are made again from the traces."""
    return data[:1] == bytes([VERSION])


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
    requests, window_ns, output, total, blocks, stopped = _HEADER.unpack_from(data, 1)
    position = 1 + _HEADER.size
    by_metric: dict[Metric, Curve] = {}
    for metric in Metric:
        distinct, kind, length, owners = _SECTION.unpack_from(data, position)
        position += _SECTION.size
        if kind == _AS_ITL:
            by_metric[metric] = by_metric[Metric.ITL]
            continue
        raw = zlib.decompress(data[position : position + length])
        position += length
        packed = data[position : position + owners]
        if len(packed) != owners:
            raise ValueError("curves: the stored bytes are damaged: they are cut short")
        by_metric[metric] = _unpack(raw, distinct, blocks, requests, packed)
        position += owners
    return Curves(by_metric, requests, window_ns, output, total, stopped)


def _pack(curve: Curve) -> bytes:
    bits = curve.values.view(np.int64)
    return b"".join(
        (
            _planes(curve.offsets, np.int64),
            _planes(np.diff(bits, prepend=0), np.int64),
            _planes(np.diff(curve.starts), np.int32),
            _planes(curve.own, np.int32),
        )
    )


def _unpack(raw: bytes, distinct: int, blocks: int, requests: int, owners: bytes) -> Curve:
    columns: list[tuple[type[np.integer], int]] = [
        (np.int64, blocks + 1),
        (np.int64, distinct),
        (np.int32, distinct),
        (np.int32, requests),
    ]
    sizes = [np.dtype(kind).itemsize * length for kind, length in columns]
    if len(raw) != sum(sizes):
        raise ValueError(f"curves: {len(raw)} bytes where {sum(sizes)} were written")
    offsets, steps, counts, own = (
        _from_planes(raw[end - size : end], kind)
        for end, size, (kind, _) in zip(accumulate(sizes), sizes, columns, strict=True)
    )
    return Curve(
        values=np.cumsum(steps, dtype=np.int64).view(np.float64),
        starts=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        offsets=offsets.astype(np.int64),
        own=own.astype(np.int64),
        owners=owners,
    )


def _planes(column: NDArray[np.integer], kind: type[np.integer]) -> bytes:
    """All first bytes, then all second bytes, and so on."""
    little = column.astype(np.dtype(kind).newbyteorder("<"))
    return little.view(np.uint8).reshape(-1, little.itemsize).T.tobytes()


def _from_planes(raw: bytes, kind: type[np.integer]) -> NDArray[np.integer]:
    little = np.dtype(kind).newbyteorder("<")
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(little.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(little).ravel()
