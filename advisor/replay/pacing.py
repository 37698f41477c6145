"""Keeping time on the event loop: absolute deadlines, the loop's own lag, no collector pauses."""

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

#: The event loop's timers wake up to a few milliseconds late; the rest of the wait is spun, so
#: that a request leaves within microseconds of its moment.
_SPIN_NS = 1_500_000

#: Often enough for a p99 within seconds, rare enough to cost nothing (200 wake-ups a second).
BEAT_NS = 5_000_000


async def sleep_until(deadline_ns: int) -> None:
    """Return at `deadline_ns` (perf_counter), or after one turn of the loop when it is past."""
    ahead_ns = deadline_ns - perf_counter_ns() - _SPIN_NS
    if ahead_ns > 0:
        await asyncio.sleep(ahead_ns / 1e9)
    while True:
        await asyncio.sleep(0)
        if perf_counter_ns() >= deadline_ns:
            return


async def record_lag(lags_ns: list[int], start_ns: int) -> None:
    """Append the loop's lateness at every beat of a fixed grid from `start_ns`, until cancelled.

    A stall is counted once for each beat that it swallowed, so its weight is its length.
    """
    beat_ns = start_ns
    while True:
        await asyncio.sleep(max(0, beat_ns - perf_counter_ns()) / 1e9)
        now_ns = perf_counter_ns()
        while beat_ns <= now_ns:
            lags_ns.append(now_ns - beat_ns)
            beat_ns += BEAT_NS


@contextmanager
def precedence() -> Iterator[None]:
    """Inside, the calling thread runs before ordinary ones, where the system permits it.

    On a machine whose cores are all busy an ordinary thread can wait hundreds of milliseconds for
    its turn, and the load generator needs only a few per cent of one core. Where it is not
    permitted (CAP_SYS_NICE or RLIMIT_RTPRIO on Linux) nothing changes, and the lateness shows.
    """
    taken = _take_precedence()
    try:
        yield
    finally:
        if taken:
            os.sched_setscheduler(0, os.SCHED_OTHER | _KEPT, os.sched_param(0))


def _take_precedence() -> bool:
    if sys.platform != "linux" or os.sched_getscheduler(0) & ~_KEPT != os.SCHED_OTHER:
        return False  # whoever chose another policy for this thread knows better
    try:
        # the lowest of the real-time priorities; threads and processes started inside have none
        os.sched_setscheduler(0, os.SCHED_FIFO | _KEPT, os.sched_param(1))
    except OSError:
        return False
    return True


#: What is started inside begins as ordinary again; without privileges it cannot be taken back.
_KEPT = os.SCHED_RESET_ON_FORK if sys.platform == "linux" else 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection inside: a full pass stops the loop for tens of milliseconds."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
