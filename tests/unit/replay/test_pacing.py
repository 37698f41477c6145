import gc
import os
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from advisor.replay.pacing import (
    collector_paused,
    precedence,
    precedence_of_the_loop,
    quick_switches,
)


def test_threads_switch_quickly_inside_only() -> None:
    usual_s = sys.getswitchinterval()
    with quick_switches():
        assert sys.getswitchinterval() < usual_s
    assert sys.getswitchinterval() == usual_s


def test_the_collector_is_left_as_it_was_found() -> None:
    gc.disable()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
    with collector_paused():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        with collector_paused():
            pass
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0, "still paused for whoever paused it first"
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_replays_that_overlap_leave_all_as_they_found_it() -> None:
    usual_s = sys.getswitchinterval()
    first, second = ExitStack(), ExitStack()
    for each in (first, second):
        each.enter_context(quick_switches())
        each.enter_context(collector_paused())
        each.enter_context(precedence_of_the_loop())
    policy = _policy()
    first.close()
    assert _policy() == policy
    assert not gc.isenabled(), "the second one still plays"
    assert sys.getswitchinterval() < usual_s
    second.close()
    assert gc.isenabled()
    assert sys.getswitchinterval() == usual_s
    assert _policy() == os.SCHED_OTHER


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
