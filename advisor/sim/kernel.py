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
from advisor.sim.kernel_pool import grow, key_of, release, unlink_idle
from advisor.sim.kernel_state import (
    ADMITTED,
    ARRIVAL,
    BLANK,
    BLOCKS,
    BUDGET,
    CACHING,
    CHUNKED,
    COMPUTED,
    DEPTH,
    EMIT_NS,
    EMITTED,
    EMITTING,
    ENDS,
    EVENT,
    EVENTS,
    HELD,
    HITS,
    IDLE,
    JOINED,
    LOG_WIDTH,
    NUM_EMITTING,
    NUM_PREEMPTED,
    NUM_REQUESTS,
    NUM_RUNNING,
    OUTPUT,
    PREEMPTED,
    PREEMPTIONS,
    PROMPT,
    QUERIES,
    QUEUE,
    REFERENCES,
    REQUEUED,
    ROOM,
    SEQS,
    SERVING,
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
    THRESHOLD,
    TOKENS,
    USABLE,
    compiled,
)
from advisor.terms.traces import Int64

_F = TypeVar("_F", bound=Callable[..., Any])

_PARTS = ("kernel.py", "kernel_cost.py", "kernel_pool.py", "kernel_state.py")
#: of the text of the compiled files; a constant inside the compiled code
SOURCE = zlib.crc32(b"".join(Path(__file__).with_name(part).read_bytes() for part in _PARTS))


@compiled
def _outstanding(m: Int64, i: int) -> int:
    count, threshold = m[m[TOKENS] + i] - m[m[COMPUTED] + i], m[THRESHOLD]
    if 0 < threshold < count:
        waiting = m[NUM_PREEMPTED] + m[JOINED] - m[ADMITTED]
        if m[NUM_RUNNING] + waiting > 1:
            return threshold
    return count


@compiled
def _enter(m: Int64, slot: int, i: int, count: int) -> None:
    """The request takes part with `count` tokens; its context includes them already."""
    context = m[m[COMPUTED] + i]
    m[STEP_SEQUENCES] += 1
    m[STEP_TOKENS] += count
    m[STEP_CONTEXT] += context
    if count > 1:
        m[STEP_PREFILLS] += 1
        m[STEP_PAIRS] += count * (context - count) + count * (count + 1) // 2
    if m[m[TOKENS] + i] == m[m[PROMPT] + i]:
        m[STEP_PROMPTS] += 1
        m[STEP_PROMPT_TOKENS] += count
    if context == m[m[TOKENS] + i]:
        m[m[EMITTING] + slot * m[SEQS] + m[m[NUM_EMITTING] + slot]] = i
        m[m[NUM_EMITTING] + slot] += 1
        m[m[TOKENS] + i] += 1


@compiled
def _schedule_running(m: Int64, slot: int) -> bool:
    """In admission order; whether any was preempted."""
    position, preempted = 0, False
    while position < m[NUM_RUNNING] and m[STEP_TOKENS] < m[BUDGET]:
        i = m[m[QUEUE] + position]
        position += 1
        if m[m[TOKENS] + i] - m[m[PROMPT] + i] == m[m[OUTPUT] + i]:
            continue
        count = min(_outstanding(m, i), m[BUDGET] - m[STEP_TOKENS])
        while not grow(m, i, count):
            preempted = True
            m[NUM_RUNNING] -= 1
            victim = m[m[QUEUE] + m[NUM_RUNNING]]
            release(m, victim)
            m[m[PREEMPTED] + victim] += 1
            m[PREEMPTIONS] += 1
            m[m[REQUEUED] + m[NUM_PREEMPTED]] = victim
            m[NUM_PREEMPTED] += 1
            if victim == i:
                return True
        _enter(m, slot, i, count)
    return preempted


@compiled
def _cached_prefix(m: Int64, i: int) -> tuple[int, int]:
    """Put found blocks into its table; how many, and how many of them nobody holds."""
    size, full = m[SIZE], 0
    if m[CACHING]:
        # What is its own can be found only where it was held before.
        full = (m[m[TOKENS] + i] - 1) // size
        full = full if m[m[PREEMPTED] + i] else min(full, m[m[SHARED] + i])
    hits, idle = 0, 0
    while hits < full:
        block = m[m[SERVING] + key_of(m, i, hits)]
        if block == 0:
            break
        m[m[BLOCKS] + m[m[TABLE] + i] + hits] = block
        idle += m[m[REFERENCES] + block] == 0
        hits += 1
    return hits, idle


@compiled
def _admissible(m: Int64, budget: int) -> tuple[int, int]:
    """The head of the queue, if it can be admitted, else -1; with how many cached blocks."""
    if budget <= 0 or m[NUM_RUNNING] >= m[SEQS]:
        return -1, 0
    if m[NUM_PREEMPTED]:
        i = m[m[REQUEUED] + m[NUM_PREEMPTED] - 1]
    elif m[ADMITTED] < m[JOINED]:
        i = m[ADMITTED]
    else:
        return -1, 0
    size = m[SIZE]
    hits, idle = _cached_prefix(m, i)
    if not m[CHUNKED] and m[m[TOKENS] + i] - hits * size > budget:
        return -1, 0
    if -(-m[m[TOKENS] + i] // size) - hits + idle > m[BLANK] + m[IDLE]:
        return -1, 0
    return i, hits


@compiled
def _admit(m: Int64, i: int, hits: int) -> None:
    size, first = m[SIZE], m[m[TABLE] + i]
    for place in range(first, first + hits):
        block = m[m[BLOCKS] + place]
        if m[m[REFERENCES] + block] == 0:
            unlink_idle(m, block)
        m[m[REFERENCES] + block] += 1
    m[m[HELD] + i], m[m[ROOM] + i], m[m[COMPUTED] + i] = hits, 0, hits * size
    if m[m[PREEMPTED] + i] == 0 and m[CACHING]:
        m[QUERIES] += m[m[TOKENS] + i]
        m[HITS] += hits * size
    if m[NUM_PREEMPTED]:
        m[NUM_PREEMPTED] -= 1
    else:
        m[ADMITTED] += 1
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
            count = min(_outstanding(m, i), budget)
            grow(m, i, count)
            _enter(m, slot, i, count)
    m[STEP_RUNNING] = m[NUM_RUNNING]
    m[STEP_WAITING] = m[NUM_PREEMPTED] + m[JOINED] - m[ADMITTED]
    m[STEP_USED] = m[USABLE] - m[BLANK] - m[IDLE]
    return m[STEP_TOKENS] > 0


@compiled
def _complete(m: Int64, slot: int) -> None:
    """Hand out the step's tokens; who has all of them leaves."""
    at_ns, ended = m[m[ENDS] + slot] + m[EMIT_NS], 0
    for n in range(m[m[NUM_EMITTING] + slot]):
        i = m[m[EMITTING] + slot * m[SEQS] + n]
        m[m[EVENTS] + m[m[EVENT] + i] + m[m[EMITTED] + i]] = at_ns
        m[m[EMITTED] + i] += 1
        if m[m[EMITTED] + i] == m[m[OUTPUT] + i]:
            release(m, i)
            ended += 1
    if ended:
        m[NUM_RUNNING] = _keep(m, m[QUEUE], m[NUM_RUNNING])
        m[NUM_PREEMPTED] = _keep(m, m[REQUEUED], m[NUM_PREEMPTED])


@compiled
def _keep(m: Int64, queue: int, length: int) -> int:
    """Close the gaps that finished requests leave; how many remain."""
    kept = 0
    for n in range(length):
        i = m[queue + n]
        if m[m[EMITTED] + i] < m[m[OUTPUT] + i]:
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
    num, depth = m[NUM_REQUESTS], m[DEPTH]
    log = np.empty((1024, LOG_WIDTH), dtype=np.int64)
    clock = free_ns = steps = completed = 0
    while True:
        while m[JOINED] < num and m[m[ARRIVAL] + m[JOINED]] <= clock:
            m[JOINED] += 1
        waiting = m[NUM_PREEMPTED] + m[JOINED] - m[ADMITTED]
        if steps - completed < depth and m[NUM_RUNNING] + waiting:
            if _schedule(m, steps % depth):
                free_ns = start(m, steps, max(clock, free_ns))
                if steps == len(log):
                    log = np.concatenate((log, np.empty_like(log)))
                log[steps] = m[:LOG_WIDTH]
                steps += 1
                if steps - completed < depth:
                    continue
        elif steps == completed:
            if m[JOINED] == num:
                return log[:steps]
            clock = m[m[ARRIVAL] + m[JOINED]]
            continue
        clock = max(clock, m[m[ENDS] + completed % depth])
        _complete(m, completed % depth)
        completed += 1
