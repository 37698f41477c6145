"""The simulator's inner loop, compiled: what `scheduler.py`, `cost.py` and `plain.py` say.

A compiled function is cached by the time stamp of
its own file alone, so only `play` is, and it refuses to run when any of these files has changed.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from advisor.sim.kernel_admit import admissible, admit, num_waiting
from advisor.sim.kernel_cost import start
from advisor.sim.kernel_pool import grow, grow_one, release
from advisor.sim.kernel_state import (
    ARRIVAL,
    BLANK,
    BUDGET,
    CLOCK,
    COMPUTED,
    DEPTH,
    EMIT_NS,
    EMITTING,
    ENDS,
    EVENT,
    EVENT_END,
    FOLLOWER,
    FRESH,
    IDLE,
    JOINED,
    LEFT,
    LOG_WIDTH,
    NUM_EMITTING,
    NUM_PREEMPTED,
    NUM_RUNNING,
    OUTSTANDING,
    PENDING,
    PENDING_END,
    PREEMPTED,
    PREEMPTIONS,
    QUEUE,
    ROOM,
    SEQS,
    STEP_CONTEXT,
    STEP_PAIRS,
    STEP_PREFILLS,
    STEP_PROMPT_TOKENS,
    STEP_PROMPTS,
    STEP_RUNNING,
    STEP_SEQUENCES,
    STEP_TOKENS,
    STEP_USED,
    STEP_WAITING,
    THRESHOLD,
    TIMES_PREEMPTED,
    USABLE,
    compiled,
    logged,
)
from advisor.terms.traces import Int64

_F = TypeVar("_F", bound=Callable[..., Any])

_PARTS = (
    "kernel.py",
    "kernel_admit.py",
    "kernel_cost.py",
    "kernel_pool.py",
    "kernel_state.py",
)
#: of the text of the compiled files; a constant inside the compiled code
SOURCE = zlib.crc32(b"".join(Path(__file__).with_name(part).read_bytes() for part in _PARTS))


@compiled
def _chunk(m: Int64, i: int, budget: int) -> int:
    """Tokens that the request computes now."""
    count, threshold = m[i + OUTSTANDING], m[THRESHOLD]
    if 0 < threshold < count and m[NUM_RUNNING] + num_waiting(m) > 1:
        count = threshold
    return min(count, budget)


@compiled
def _enter(m: Int64, slot: int, i: int, count: int) -> None:
    """The request takes part with `count` tokens; its context includes them already."""
    context = m[i + COMPUTED]
    m[STEP_SEQUENCES] += 1
    m[STEP_TOKENS] += count
    m[STEP_CONTEXT] += context
    if count > 1:
        m[STEP_PREFILLS] += 1
        m[STEP_PAIRS] += count * (context - count) + count * (count + 1) // 2
    if m[i + FRESH]:
        m[STEP_PROMPTS] += 1
        m[STEP_PROMPT_TOKENS] += count
    if m[i + OUTSTANDING] == 0:
        m[m[EMITTING] + slot * m[SEQS] + m[m[NUM_EMITTING] + slot]] = i
        m[m[NUM_EMITTING] + slot] += 1
        m[i + FRESH] = 0
        m[i + LEFT] -= 1
        m[i + OUTSTANDING] = m[i + LEFT] > 0


@compiled
def _preempt_last(m: Int64) -> int:
    m[NUM_RUNNING] -= 1
    victim = m[m[QUEUE] + m[NUM_RUNNING]]
    release(m, victim)
    m[victim + OUTSTANDING] += m[victim + COMPUTED]
    m[victim + COMPUTED] = 0
    m[victim + TIMES_PREEMPTED] += 1
    m[PREEMPTIONS] += 1
    m[m[PREEMPTED] + m[NUM_PREEMPTED]] = victim
    m[NUM_PREEMPTED] += 1
    return victim


@compiled
def _schedule_running(m: Int64, slot: int) -> bool:
    """In admission order; whether any was preempted."""
    position, preempted = 0, False
    while position < m[NUM_RUNNING] and m[STEP_TOKENS] < m[BUDGET]:
        position = _schedule_decodes(m, slot, position)
        if position == m[NUM_RUNNING] or m[STEP_TOKENS] == m[BUDGET]:
            break
        i = m[m[QUEUE] + position]
        position += 1
        if m[i + OUTSTANDING] == 0:
            # Its last token is on its way.
            continue
        count = _chunk(m, i, m[BUDGET] - m[STEP_TOKENS])
        while not grow(m, i, count):
            preempted = True
            if _preempt_last(m) == i:
                return True
        _enter(m, slot, i, count)
    return preempted


@compiled
def _schedule_decodes(m: Int64, slot: int, position: int) -> int:
    """Those from a position on that compute one token, up to one that is different.

    What `_enter` does for each is here done for all, as most of the time goes here.
    """
    first = m[m[NUM_EMITTING] + slot]
    emitting = m[EMITTING] + slot * m[SEQS] + first - position
    last = min(m[NUM_RUNNING], position + m[BUDGET] - m[STEP_TOKENS])
    queue, context, skipped = m[QUEUE], 0, 0
    start = position
    while position < last:
        i = m[queue + position]
        outstanding = m[i + OUTSTANDING]
        if outstanding != 1 or m[i + FRESH]:
            if outstanding == 0:
                skipped += 1
                position += 1
                continue
            break
        room = m[i + ROOM]
        if room <= 1:
            if not grow_one(m, i):
                break
        else:
            m[i + ROOM] = room - 1
            m[i + COMPUTED] += 1
        context += m[i + COMPUTED]
        left = m[i + LEFT] - 1
        m[i + LEFT] = left
        m[i + OUTSTANDING] = left > 0
        m[emitting + position - skipped] = i
        position += 1
    count = position - start - skipped
    m[m[NUM_EMITTING] + slot] = first + count
    m[STEP_SEQUENCES] += count
    m[STEP_TOKENS] += count
    m[STEP_CONTEXT] += context
    return position


@compiled
def _schedule(m: Int64, slot: int) -> bool:
    """Choose the next step's requests; False when there is nothing to compute."""
    for place in range(LOG_WIDTH):
        m[place] = 0
    m[m[NUM_EMITTING] + slot] = 0
    if not _schedule_running(m, slot):
        while True:
            budget = m[BUDGET] - m[STEP_TOKENS]
            i, hits = admissible(m, budget)
            if i < 0:
                break
            admit(m, i, hits)
            count = _chunk(m, i, budget)
            grow(m, i, count)
            _enter(m, slot, i, count)
    m[STEP_RUNNING] = m[NUM_RUNNING]
    m[STEP_WAITING] = num_waiting(m)
    m[STEP_USED] = m[USABLE] - m[BLANK] - m[IDLE]
    return m[STEP_TOKENS] > 0


@compiled
def _complete(m: Int64, slot: int) -> None:
    """Hand out the step's tokens; who has all of them leaves."""
    at_ns, ended, first = m[m[ENDS] + slot] + m[EMIT_NS], False, m[EMITTING] + slot * m[SEQS]
    for place in range(first, first + m[m[NUM_EMITTING] + slot]):
        i = m[place]
        event = m[i + EVENT]
        m[event] = at_ns
        m[i + EVENT] = event + 1
        if event + 1 == m[i + EVENT_END]:
            release(m, i)
            ended = True
            follower = m[i + FOLLOWER]
            if follower:
                m[follower + ARRIVAL] += at_ns
                _await(m, follower)
    if ended:
        m[NUM_RUNNING] = _keep(m, m[QUEUE], m[NUM_RUNNING])
        m[NUM_PREEMPTED] = _keep(m, m[PREEMPTED], m[NUM_PREEMPTED])


@compiled
def _await(m: Int64, i: int) -> None:
    """Its arrival is known now; equal ones keep the order of the load."""
    place = m[PENDING_END]
    m[PENDING_END] = place + 1
    while place > m[PENDING]:
        sooner = m[place - 1]
        if (m[sooner + ARRIVAL], sooner) > (m[i + ARRIVAL], i):
            break
        m[place] = sooner
        place -= 1
    m[place] = i


@compiled
def _join(m: Int64, clock: int) -> None:
    """Who has arrived by now waits to be admitted."""
    while m[PENDING_END] > m[PENDING]:
        i = m[m[PENDING_END] - 1]
        if m[i + ARRIVAL] > clock:
            return
        m[PENDING_END] -= 1
        m[m[JOINED]] = i
        m[JOINED] += 1


@compiled
def _keep(m: Int64, queue: int, length: int) -> int:
    """Close the gaps that finished requests leave; how many remain."""
    kept = 0
    for n in range(length):
        i = m[queue + n]
        if m[i + EVENT] < m[i + EVENT_END]:
            m[queue + kept] = i
            kept += 1
    return kept


def _cached(function: _F) -> _F:
    # the lock is let go: several replays are played side by side
    return cast(_F, njit(cache=True, error_model="numpy", nogil=True)(function))


@_cached
def play(m: Int64, source: int) -> Int64:
    """To the end of the last request; the log, one row a step, or none if it is out of date."""
    if source != SOURCE:
        return np.empty((0, 0), dtype=np.int64)
    depth = m[DEPTH]
    log = np.empty((1024, LOG_WIDTH), dtype=np.int64)
    clock = free_ns = steps = completed = 0
    while True:
        _join(m, clock)
        if steps - completed < depth and m[NUM_RUNNING] + num_waiting(m):
            m[CLOCK] = clock
            if _schedule(m, steps % depth):
                free_ns = start(m, steps, max(clock, free_ns))
                log = logged(m, log, steps)
                steps += 1
                if steps - completed < depth:
                    continue
        elif steps == completed:
            if m[PENDING_END] == m[PENDING]:
                return log[:steps]
            clock = m[m[m[PENDING_END] - 1] + ARRIVAL]
            continue
        clock = max(clock, m[m[ENDS] + completed % depth])
        _complete(m, completed % depth)
        completed += 1
