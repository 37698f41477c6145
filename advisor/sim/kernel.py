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

from advisor.sim.kernel_cost import start
from advisor.sim.kernel_pool import find, grow, grow_one, release, unlink_idle
from advisor.sim.kernel_state import (
    ADMITTED,
    ARRIVAL,
    BLANK,
    BUDGET,
    CACHING,
    CHUNKED,
    COMPUTED,
    DEPTH,
    EMIT_NS,
    EMITTING,
    ENDS,
    EVENT,
    EVENT_END,
    FRESH,
    HITS,
    IDLE,
    JOINED,
    LEFT,
    LOG_WIDTH,
    NULL,
    NUM_EMITTING,
    NUM_PREEMPTED,
    NUM_RUNNING,
    OUTSTANDING,
    PREEMPTED,
    PREEMPTIONS,
    QUERIES,
    QUEUE,
    REFERENCES,
    REQUEST_WIDTH,
    REQUESTS_END,
    SEQS,
    SHARED,
    SIZE,
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
    TABLE,
    TABLE_END,
    THRESHOLD,
    TIMES_PREEMPTED,
    USABLE,
    compiled,
)
from advisor.terms.traces import Int64

_F = TypeVar("_F", bound=Callable[..., Any])

_PARTS = ("kernel.py", "kernel_cost.py", "kernel_pool.py", "kernel_state.py")
#: of the text of the compiled files; a constant inside the compiled code
SOURCE = zlib.crc32(b"".join(Path(__file__).with_name(part).read_bytes() for part in _PARTS))


@compiled
def _num_waiting(m: Int64) -> int:
    return m[NUM_PREEMPTED] + (m[JOINED] - m[ADMITTED]) // REQUEST_WIDTH


@compiled
def _chunk(m: Int64, i: int, budget: int) -> int:
    """Tokens that the request computes now."""
    count, threshold = m[i + OUTSTANDING], m[THRESHOLD]
    if 0 < threshold < count and m[NUM_RUNNING] + _num_waiting(m) > 1:
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
        i = m[m[QUEUE] + position]
        position += 1
        outstanding = m[i + OUTSTANDING]
        if outstanding == 0:
            continue
        count = 1 if outstanding == 1 else _chunk(m, i, m[BUDGET] - m[STEP_TOKENS])
        while not (grow_one(m, i) if count == 1 else grow(m, i, count)):
            preempted = True
            if _preempt_last(m) == i:
                return True
        _enter(m, slot, i, count)
    return preempted


@compiled
def _cached_prefix(m: Int64, i: int) -> tuple[int, int]:
    """Put found blocks into its table; how many, and how many of them nobody holds."""
    full = 0
    if m[CACHING]:
        # What is its own can be found only where it was held before.
        full = (m[i + OUTSTANDING] - 1) // m[SIZE]
        full = full if m[i + TIMES_PREEMPTED] else min(full, m[i + SHARED])
    hits, idle = 0, 0
    while hits < full:
        block = find(m, i, hits)
        if block == NULL:
            break
        m[m[i + TABLE] + hits] = block
        idle += m[block + REFERENCES] == 0
        hits += 1
    return hits, idle


@compiled
def _admissible(m: Int64, budget: int) -> tuple[int, int]:
    """The head of the queue, if it can be admitted, else -1; with how many cached blocks."""
    if budget <= 0 or m[NUM_RUNNING] >= m[SEQS]:
        return -1, 0
    if m[NUM_PREEMPTED]:
        i = m[m[PREEMPTED] + m[NUM_PREEMPTED] - 1]
    elif m[ADMITTED] < m[JOINED]:
        i = m[ADMITTED]
    else:
        return -1, 0
    size, tokens = m[SIZE], m[i + OUTSTANDING]
    hits, idle = _cached_prefix(m, i)
    if not m[CHUNKED] and tokens - hits * size > budget:
        return -1, 0
    if -(-tokens // size) - hits + idle > m[BLANK] + m[IDLE]:
        return -1, 0
    return i, hits


@compiled
def _admit(m: Int64, i: int, hits: int) -> None:
    for place in range(m[i + TABLE], m[i + TABLE] + hits):
        block = m[place]
        if m[block + REFERENCES] == 0:
            unlink_idle(m, block)
        m[block + REFERENCES] += 1
    cached = hits * m[SIZE]
    if m[i + TIMES_PREEMPTED] == 0 and m[CACHING]:
        m[QUERIES] += m[i + OUTSTANDING]
        m[HITS] += cached
    m[i + TABLE_END] = m[i + TABLE] + hits
    m[i + COMPUTED] = cached
    m[i + OUTSTANDING] -= cached
    if m[NUM_PREEMPTED]:
        m[NUM_PREEMPTED] -= 1
    else:
        m[ADMITTED] += REQUEST_WIDTH
    m[m[QUEUE] + m[NUM_RUNNING]] = i
    m[NUM_RUNNING] += 1


@compiled
def _schedule(m: Int64, slot: int) -> bool:
    """Choose the next step's requests; False when there is nothing to compute."""
    m[:LOG_WIDTH] = 0
    m[m[NUM_EMITTING] + slot] = 0
    if not _schedule_running(m, slot):
        while True:
            budget = m[BUDGET] - m[STEP_TOKENS]
            i, hits = _admissible(m, budget)
            if i < 0:
                break
            _admit(m, i, hits)
            count = _chunk(m, i, budget)
            grow(m, i, count)
            _enter(m, slot, i, count)
    m[STEP_RUNNING] = m[NUM_RUNNING]
    m[STEP_WAITING] = _num_waiting(m)
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
    if ended:
        m[NUM_RUNNING] = _keep(m, m[QUEUE], m[NUM_RUNNING])
        m[NUM_PREEMPTED] = _keep(m, m[PREEMPTED], m[NUM_PREEMPTED])


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
    return cast(_F, njit(cache=True, error_model="numpy")(function))


@_cached
def play(m: Int64, source: int) -> Int64:
    """To the end of the last request; the log, one row a step, or none if it is out of date."""
    if source != SOURCE:
        return np.empty((0, 0), dtype=np.int64)
    end, depth = m[REQUESTS_END], m[DEPTH]
    log = np.empty((1024, LOG_WIDTH), dtype=np.int64)
    clock = free_ns = steps = completed = 0
    while True:
        while m[JOINED] < end and m[m[JOINED] + ARRIVAL] <= clock:
            m[JOINED] += REQUEST_WIDTH
        if steps - completed < depth and m[NUM_RUNNING] + _num_waiting(m):
            if _schedule(m, steps % depth):
                free_ns = start(m, steps, max(clock, free_ns))
                if steps == len(log):
                    log = np.concatenate((log, np.empty_like(log)))
                log[steps] = m[:LOG_WIDTH]
                steps += 1
                if steps - completed < depth:
                    continue
        elif steps == completed:
            if m[JOINED] == end:
                return log[:steps]
            clock = m[m[JOINED] + ARRIVAL]
            continue
        clock = max(clock, m[m[ENDS] + completed % depth])
        _complete(m, completed % depth)
        completed += 1
