import asyncio
import gc
import time
from itertools import pairwise
from time import perf_counter_ns

from advisor.replay.pacing import BEAT_NS, collector_paused, record_lag, sleep_until


async def test_a_deadline_is_never_anticipated() -> None:
    for ahead_ns in (-1_000_000, 0, 100_000, 4_000_000):
        deadline_ns = perf_counter_ns() + ahead_ns
        await sleep_until(deadline_ns)
        assert perf_counter_ns() >= deadline_ns


async def test_a_past_deadline_still_gives_the_loop_a_turn() -> None:
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await sleep_until(0)
    assert turns == [1]


async def test_a_stall_weighs_as_many_beats_as_it_swallowed() -> None:
    lags_ns: list[int] = []
    task = asyncio.create_task(record_lag(lags_ns, perf_counter_ns()))
    await asyncio.sleep(0)
    lags_ns.clear()
    time.sleep(0.1)  # noqa: ASYNC251 - the stall under test
    await asyncio.sleep(0.01)
    task.cancel()
    swallowed = lags_ns[:18]
    assert [a - b for a, b in pairwise(swallowed)] == [BEAT_NS] * 17


def test_the_collector_is_left_as_it_was_found() -> None:
    gc.disable()
    try:
        with collector_paused():
            assert gc.get_freeze_count() > 0
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert gc.get_freeze_count() == 0
