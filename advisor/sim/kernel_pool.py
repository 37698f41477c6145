"""The block pool, compiled: what `blocks.py` says, with links instead of dictionaries."""

from advisor.sim.kernel_state import (
    BLANK,
    BLANKS,
    BLOCK_TOKENS,
    CACHING,
    COMPUTED,
    ID_START,
    IDLE,
    IDS,
    KEY,
    KEYS,
    LAST_COPY,
    NEWER,
    NEXT_COPY,
    NULL,
    OLDER,
    OUTSTANDING,
    OWN,
    OWN_KEYS,
    REFERENCES,
    ROOM,
    SHARED,
    SIZE,
    TABLE,
    TABLE_END,
    compiled,
)
from advisor.terms.traces import Int64


@compiled
def key_of(m: Int64, i: int, slot: int) -> int:
    """Names the content of a full block: equal where all tokens up to its end are."""
    if slot >= m[i + SHARED]:
        return m[i + OWN] + slot
    size, each = m[SIZE], m[BLOCK_TOKENS]
    part = ((slot + 1) * size - 1) // each
    place = m[m[IDS] + m[i + ID_START] + part] * (-(-each // size)) + slot - part * each // size
    return m[KEYS] + 2 * place


@compiled
def find(m: Int64, i: int, slot: int) -> int:
    """The block with the content of one of a request's; NULL for none."""
    key = key_of(m, i, slot)
    if key < OWN_KEYS:
        return m[key]
    # Its own block, let go when it was preempted, if nobody took it since.
    block = m[m[i + TABLE] + slot]
    return block if m[block + KEY] == key else NULL


@compiled
def unlink_idle(m: Int64, block: int) -> None:
    """Out of the free queue."""
    older, newer = m[block + OLDER], m[block + NEWER]
    m[older + NEWER] = newer
    m[newer + OLDER] = older
    m[IDLE] -= 1


@compiled
def _forget(m: Int64, block: int) -> None:
    """Its content can be found in it no more; the next copy serves, if it did."""
    key = m[block + KEY]
    m[block + KEY] = -1
    if key >= OWN_KEYS:
        return
    before, after = m[block + LAST_COPY], m[block + NEXT_COPY]
    if before != NULL:
        m[before + NEXT_COPY] = after
    else:
        m[key] = after
    if after != NULL:
        m[after + LAST_COPY] = before
    else:
        m[key + 1] = before


@compiled
def _take(m: Int64, i: int) -> None:
    """Hold one more block, the longest free."""
    if m[BLANK]:
        m[BLANK] -= 1
        block = m[m[BLANKS] + m[BLANK]]
    else:
        block = m[NULL + NEWER]
        unlink_idle(m, block)
        _forget(m, block)
    m[block + REFERENCES] = 1
    m[m[i + TABLE_END]] = block
    m[i + TABLE_END] += 1


@compiled
def _name(m: Int64, i: int, slot: int) -> None:
    """A block is full now and its content can be found."""
    block, key = m[m[i + TABLE] + slot], key_of(m, i, slot)
    m[block + KEY] = key
    if key >= OWN_KEYS:
        return
    latest = m[key + 1]
    m[block + LAST_COPY] = latest
    m[block + NEXT_COPY] = NULL
    m[key + 1] = block
    if latest != NULL:
        m[latest + NEXT_COPY] = block
    else:
        m[key] = block


@compiled
def release(m: Int64, i: int) -> None:
    """Let go of all blocks, last first, so heads of prefixes live longest."""
    latest = m[NULL + OLDER]
    for place in range(m[i + TABLE_END] - 1, m[i + TABLE] - 1, -1):
        block = m[place]
        m[block + REFERENCES] -= 1
        if m[block + REFERENCES]:
            continue
        if m[block + KEY] < 0:
            m[m[BLANKS] + m[BLANK]] = block
            m[BLANK] += 1
        else:
            m[block + OLDER] = latest
            m[latest + NEWER] = block
            m[IDLE] += 1
            latest = block
    m[latest + NEWER] = NULL
    m[NULL + OLDER] = latest
    m[i + TABLE_END] = m[i + TABLE]
    m[i + ROOM] = 0


@compiled
def grow(m: Int64, i: int, count: int) -> bool:
    """Advance by `count` tokens and hold the blocks for them; False when the pool has none."""
    size = m[SIZE]
    missing = max(0, -(-(count - m[i + ROOM]) // size))
    if missing > m[BLANK] + m[IDLE]:
        return False
    for _ in range(missing):
        _take(m, i)
    before = m[i + COMPUTED]
    m[i + ROOM] += missing * size - count
    m[i + COMPUTED] = before + count
    m[i + OUTSTANDING] -= count
    if m[CACHING]:
        for slot in range(before // size, (before + count) // size):
            _name(m, i, slot)
    return True


@compiled
def grow_one(m: Int64, i: int) -> bool:
    """The same for one token, which most requests compute in most steps."""
    room = m[i + ROOM]
    if room == 0:
        if m[BLANK] + m[IDLE] == 0:
            return False
        _take(m, i)
        room = m[SIZE]
    m[i + ROOM] = room - 1
    m[i + COMPUTED] += 1
    m[i + OUTSTANDING] -= 1
    if room == 1 and m[CACHING]:
        _name(m, i, m[i + TABLE_END] - m[i + TABLE] - 1)
    return True
