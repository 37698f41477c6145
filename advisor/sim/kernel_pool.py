"""The block pool, compiled: what `blocks.py` says, with links instead of dictionaries."""

from advisor.sim.kernel_state import (
    BLANK,
    BLANKS,
    BLOCK_TOKENS,
    BLOCKS,
    CACHING,
    COMPUTED,
    HELD,
    ID_START,
    IDLE,
    IDS,
    KEY,
    LAST_COPY,
    LATEST,
    NEWER,
    NEXT_COPY,
    OLDER,
    OWN,
    REFERENCES,
    ROOM,
    SERVING,
    SHARED,
    SIZE,
    TABLE,
    compiled,
)
from advisor.terms.traces import Int64


@compiled
def key_of(m: Int64, i: int, slot: int) -> int:
    """Names the content of a full block: equal where all tokens up to its end are."""
    if slot >= m[m[SHARED] + i]:
        return m[m[OWN] + i] + slot
    size, each = m[SIZE], m[BLOCK_TOKENS]
    part = ((slot + 1) * size - 1) // each
    return m[m[IDS] + m[m[ID_START] + i] + part] * (-(-each // size)) + slot - part * each // size


@compiled
def unlink_idle(m: Int64, block: int) -> None:
    older, newer = m[m[OLDER] + block], m[m[NEWER] + block]
    m[m[NEWER] + older] = newer
    m[m[OLDER] + newer] = older
    m[IDLE] -= 1


@compiled
def _forget(m: Int64, block: int) -> None:
    """Its content can be found in it no more; the next copy serves, if it did."""
    key, before, after = m[m[KEY] + block], m[m[LAST_COPY] + block], m[m[NEXT_COPY] + block]
    if before:
        m[m[NEXT_COPY] + before] = after
    else:
        m[m[SERVING] + key] = after
    if after:
        m[m[LAST_COPY] + after] = before
    else:
        m[m[LATEST] + key] = before
    m[m[KEY] + block] = -1


@compiled
def _take(m: Int64, i: int) -> None:
    """Hold one more block, the longest free."""
    if m[BLANK]:
        m[BLANK] -= 1
        block = m[m[BLANKS] + m[BLANK]]
    else:
        block = m[m[NEWER] + 0]
        unlink_idle(m, block)
        _forget(m, block)
    m[m[REFERENCES] + block] = 1
    m[m[BLOCKS] + m[m[TABLE] + i] + m[m[HELD] + i]] = block
    m[m[HELD] + i] += 1


@compiled
def _name(m: Int64, i: int, slot: int) -> None:
    """A block is full now and its content can be found."""
    block, key = m[m[BLOCKS] + m[m[TABLE] + i] + slot], key_of(m, i, slot)
    latest = m[m[LATEST] + key]
    m[m[KEY] + block] = key
    m[m[LAST_COPY] + block] = latest
    m[m[NEXT_COPY] + block] = 0
    m[m[LATEST] + key] = block
    if latest:
        m[m[NEXT_COPY] + latest] = block
    else:
        m[m[SERVING] + key] = block


@compiled
def release(m: Int64, i: int) -> None:
    """Last block first, so heads of prefixes live longest."""
    first = m[m[TABLE] + i]
    for place in range(first + m[m[HELD] + i] - 1, first - 1, -1):
        block = m[m[BLOCKS] + place]
        m[m[REFERENCES] + block] -= 1
        if m[m[REFERENCES] + block]:
            continue
        if m[m[KEY] + block] < 0:
            m[m[BLANKS] + m[BLANK]] = block
            m[BLANK] += 1
        else:
            latest = m[m[OLDER] + 0]
            m[m[OLDER] + block] = latest
            m[m[NEWER] + block] = 0
            m[m[NEWER] + latest] = block
            m[m[OLDER] + 0] = block
            m[IDLE] += 1
    m[m[HELD] + i] = m[m[ROOM] + i] = m[m[COMPUTED] + i] = 0


@compiled
def grow(m: Int64, i: int, count: int) -> bool:
    """Advance by `count` tokens and hold the blocks for them; False when the pool has none."""
    size, caching = m[SIZE], m[CACHING]
    if count == 1:
        if m[m[ROOM] + i] == 0:
            if m[BLANK] + m[IDLE] == 0:
                return False
            _take(m, i)
            m[m[ROOM] + i] = size
        m[m[ROOM] + i] -= 1
        m[m[COMPUTED] + i] += 1
        if m[m[ROOM] + i] == 0 and caching:
            _name(m, i, m[m[HELD] + i] - 1)
        return True
    missing = max(0, -(-(count - m[m[ROOM] + i]) // size))
    if missing > m[BLANK] + m[IDLE]:
        return False
    for _ in range(missing):
        _take(m, i)
    before = m[m[COMPUTED] + i]
    m[m[ROOM] + i] += missing * size - count
    m[m[COMPUTED] + i] = before + count
    if caching:
        for slot in range(before // size, (before + count) // size):
            _name(m, i, slot)
    return True
