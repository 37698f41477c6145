"""Which keys the full blocks of a prompt have: equal prefixes, equal keys.

Keys come as lists of ranges, in the order of the blocks.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from advisor.sim.blocks import BlockPool


class PromptKeys:
    """Keys of a pool for prompts whose parts are named by ids."""

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self._pool = pool
        self._size = block_size
        #: id -> a number that makes the position of a block that ends in its part a key
        self._offset: dict[int, int] = {}

    def of(self, prompt: int, block_ids: Sequence[int], block_tokens: int) -> list[range]:
        """A key for each full block of a prompt, as far as ids reach.

        An id names the prompt up to the end of its part of `block_tokens`; the last one's may be
        shorter.
        """
        size = self._size
        keys: list[range] = []
        known = start = 0
        for offset, ids in groupby(map(self._offset.get, block_ids)):
            if offset is None:
                break
            known += len(list(ids))
            stop = known * block_tokens // size
            extend(keys, range(offset + start, offset + stop))
            start = stop
        # What follows something new is new.
        new = self._pool.new_keys(len(block_ids) * block_tokens // size - start)
        self._offset.update(dict.fromkeys(block_ids[known:], new.start - start))
        extend(keys, new)
        # The last id covers no more than the prompt.
        return part(keys, 0, prompt // size)


def extend(keys: list[range], more: range) -> None:
    """Append keys, joining what is one range."""
    if keys and keys[-1].stop == more.start:
        keys[-1] = range(keys[-1].start, more.stop)
    elif more:
        keys.append(more)


def part(keys: Iterable[range], first: int, last: int) -> list[range]:
    """keys[first:last], of the keys one after the other."""
    found: list[range] = []
    for span in keys:
        if last <= 0:
            break
        inside = span[max(first, 0) : last]
        if inside:
            found.append(inside)
        first -= len(span)
        last -= len(span)
    return found


def total(keys: Iterable[range]) -> int:
    """How many keys."""
    return sum(map(len, keys))
