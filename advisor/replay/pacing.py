"""Keeping time: the first turn on the processor, no collector pauses, short waits for the lock."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

#: Often enough for a p99 within seconds, rare enough to cost nothing (200 wake-ups a second).
BEAT_NS = 5_000_000

_SWITCH_S = 0.0002


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


class _WhileNeeded:
    """A setting of the whole interpreter, made by the first who needs it and taken back after the
    last: replays against several servers overlap, and end in any order. Of one thread."""

    def __init__(self, made: Callable[[], AbstractContextManager[None]]) -> None:
        self._made = made
        self._needed_by = 0
        self._undo = ExitStack()

    @contextmanager
    def needed(self) -> Iterator[None]:
        if self._needed_by == 0:
            self._undo.enter_context(self._made())
        self._needed_by += 1
        try:
            yield
        finally:
            self._needed_by -= 1
            if self._needed_by == 0:
                self._undo.close()


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection inside: a full pass stops the loop for tens of milliseconds.

    Free of cost where it is paused already, as for many short replays in succession.
    """
    with _NO_COLLECTOR.needed():
        yield


@contextmanager
def quick_switches() -> Iterator[None]:
    """Inside, a thread that wants the interpreter has it after a fifth of a millisecond.

    The default of 5 ms is how late a send could be while another thread works.
    """
    with _QUICK_SWITCHES.needed():
        yield


@contextmanager
def precedence_of_the_loop() -> Iterator[None]:
    """The same for the thread of the event loop, in which replays against several servers overlap:
    until the last of them ends."""
    with _PRECEDENCE.needed():
        yield


@contextmanager
def _no_collector() -> Iterator[None]:
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


@contextmanager
def _short_switches() -> Iterator[None]:
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)


_PRECEDENCE = _WhileNeeded(precedence)
_NO_COLLECTOR, _QUICK_SWITCHES = _WhileNeeded(_no_collector), _WhileNeeded(_short_switches)
