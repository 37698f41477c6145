"""Two clocks: the kernel stamps arrivals by the wall clock, the plan runs on a monotonic one."""

import struct
import sys
import time
from time import perf_counter_ns

import numpy as np

from advisor.terms.traces import Int64

#: `SO_TIMESTAMPNS` of Linux's asm-generic/socket.h; the option is also the message's type.
STAMPS_OPTION = 35 if sys.platform == "linux" else None
#: A `struct timespec` of 64-bit Linux, and what stands for one that the kernel did not give.
STAMP_BYTES = 16
NO_STAMP = bytes(STAMP_BYTES)
CONTROL_BYTES = 64

#: Both clocks are slewed alike, so their distance changes by steps alone (clock_settime, leap
#: seconds); finding it out is good to a few microseconds on a busy machine.
_STEP_NS = 100_000
_READINGS = 25


def wall_offset_ns() -> int:
    """The wall clock minus perf_counter, by the reading least disturbed of several."""
    readings = []
    for _ in range(_READINGS):
        before_ns = perf_counter_ns()
        wall_ns = time.time_ns()
        after_ns = perf_counter_ns()
        readings.append((after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2))
    return min(readings)[1]


def was_stepped(start_offset_ns: int, end_offset_ns: int) -> bool:
    """Whether somebody set the wall clock meanwhile: stamps taken by it are then of no use."""
    return abs(end_offset_ns - start_offset_ns) > _STEP_NS


def kernel_stamps(stamps: bytes | bytearray, offset_ns: int) -> Int64 | None:
    """`struct timespec`s as perf_counter ns; None when the kernel left one of them out."""
    parts = np.frombuffer(bytes(stamps), dtype=np.int64).reshape(-1, 2)
    if not parts[:, 0].all():
        return None
    return parts[:, 0] * 1_000_000_000 + parts[:, 1] - offset_ns


def timespec(ns: int) -> bytes:
    """What the kernel writes for this moment of the wall clock."""
    return struct.pack("=qq", *divmod(ns, 1_000_000_000))
