"""Admission, compiled: the head of the queue, its cached prefix, and whether it fits."""

from advisor.sim.kernel_pool import find, unlink_idle
from advisor.sim.kernel_state import (
    ADMITTED,
    ARRIVAL,
    BLANK,
    CACHING,
    CHUNKED,
    CLOCK,
    COMPUTED,
    HITS,
    IDLE,
    JOINED,
    NULL,
    NUM_PREEMPTED,
    NUM_RUNNING,
    OUTSTANDING,
    PREEMPTED,
    QUERIES,
    QUEUE,
    QUEUED_NS,
    REFERENCES,
    SEQS,
    SHARED,
    SIZE,
    TABLE,
    TABLE_END,
    TIMES_PREEMPTED,
    compiled,
)
from advisor.terms.traces import Int64


@compiled
def num_waiting(m: Int64) -> int:
    """Preempted requests and new ones."""
    return m[NUM_PREEMPTED] + m[JOINED] - m[ADMITTED]


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
def admissible(m: Int64, budget: int) -> tuple[int, int]:
    """The head of the queue, if it can be admitted, else -1; with how many cached blocks."""
    if budget <= 0 or m[NUM_RUNNING] >= m[SEQS]:
        return -1, 0
    if m[NUM_PREEMPTED]:
        i = m[m[PREEMPTED] + m[NUM_PREEMPTED] - 1]
    elif m[ADMITTED] < m[JOINED]:
        i = m[m[ADMITTED]]
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
def admit(m: Int64, i: int, hits: int) -> None:
    """The head of the queue starts running, with the cached blocks now in its table."""
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
        m[QUEUED_NS] += m[CLOCK] - m[i + ARRIVAL]
        m[ADMITTED] += 1
    m[m[QUEUE] + m[NUM_RUNNING]] = i
    m[NUM_RUNNING] += 1
