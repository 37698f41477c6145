import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from itertools import pairwise
from time import perf_counter_ns

import pytest

from advisor.replay.pacing import (
    BEAT_NS,
    collector_paused,
    precedence,
    record_lag,
    sleep_until,
)


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


linux = pytest.mark.skipif(sys.platform != "linux", reason="scheduling policies are Linux's")
_SHOW = "print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)"


def _policy() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


@linux
def test_precedence_is_this_threads_alone_and_ends() -> None:
    others: list[int] = []
    with precedence():
        inside = _policy()
        thread = threading.Thread(target=lambda: others.append(_policy()))
        thread.start()
        thread.join()
        child = subprocess.check_output([sys.executable, "-c", f"import os; {_SHOW}"])
    if inside != os.SCHED_FIFO:
        pytest.skip("this user may not take precedence")
    assert others == [int(child)] == [os.SCHED_OTHER]
    assert _policy() == os.SCHED_OTHER


@linux
def test_without_the_right_to_precedence_nothing_changes() -> None:
    lines = [
        "import os, resource",
        "from advisor.replay.pacing import precedence",
        "resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))",
        "os.getuid() or os.setuid(65534)",
        f"with precedence(): {_SHOW}",
    ]
    assert int(subprocess.check_output([sys.executable, "-c", "\n".join(lines)])) == 0


@linux
def test_a_policy_that_was_chosen_is_kept() -> None:
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        with precedence():
            assert _policy() == os.SCHED_BATCH
        assert _policy() == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
