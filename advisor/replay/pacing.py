"""Keeping time on the event loop: absolute deadlines, the loop's own lag, no collector pauses."""

import asyncio
import gc
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
