"""The KV block pool: reference counts, the free queue, and the prefix cache over both.

Flat lists indexed by block; block 0 is vLLM's null block, never handed out. What is cached joins
the free queue at its back and what is not at its front, so the queue is two: blank blocks, a
stack, and behind them the idle ones, which still hold a cached prefix.
"""

from collections import deque
from collections.abc import Sequence

NO_KEY = -(1 << 63)
NOT_FOUND = 0


class BlockPool:
    """`num_blocks` blocks, all but the null block to give away."""

    def __init__(self, num_blocks: int) -> None:
        self.num_usable = num_blocks - 1
        self.num_free = self.num_usable
        self.references = [0] * num_blocks
        self.keys = [NO_KEY] * num_blocks
        # Next to be taken last.
        self._blank = list(range(num_blocks - 1, 0, -1))
        # Next to be taken first. A block that is found again keeps its place here until that
        # comes up; how many such places each block has:
        self._idle: deque[int] = deque()
        self._void: dict[int, int] = {}
        # Key -> the block that holds it, and others that do, next to stand in for it last.
        self._cached: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}

    def find(self, key: int) -> int:
        """A block holding the prefix named by `key`, or NOT_FOUND."""
        return self._cached.get(key, NOT_FOUND)

    def find_prefix(self, keys: Sequence[int]) -> list[int]:
        """The blocks that hold these keys, up to the first key that none holds."""
        cached = self._cached
        found: list[int] = []
        for key in keys:
            block = cached.get(key, NOT_FOUND)
            if block == NOT_FOUND:
                break
            found.append(block)
        return found

    def acquire(self, blocks: Sequence[int]) -> None:
        """Add a reference to cached blocks; those nobody held leave the free queue."""
        references, void = self.references, self._void
        for block in blocks:
            if references[block] == 0:
                void[block] = void.get(block, 0) + 1
                self.num_free -= 1
            references[block] += 1

    def take(self, count: int) -> list[int]:
        """The `count` blocks longest free, their cached content forgotten; count <= num_free."""
        blank, references = self._blank, self.references
        taken = blank[: -count - 1 : -1]
        del blank[len(blank) - len(taken) :]
        if len(taken) < count:
            taken += self._evict(count - len(taken))
        for block in taken:
            references[block] = 1
        self.num_free -= count
        return taken

    def name(self, blocks: Sequence[int], keys: Sequence[int]) -> None:
        """Full blocks become cache entries; an earlier one of the same key stays the first."""
        cached, names = self._cached, self.keys
        for block, key in zip(blocks, keys, strict=True):
            names[block] = key
            if cached.setdefault(key, block) != block:
                self._copies.setdefault(key, []).append(block)

    def release(self, blocks: Sequence[int]) -> None:
        """Drop a reference to a request's blocks, last block first.

        Those with a name, which come before those without, go to the back of the free queue (so
        heads of prefixes live longest), the others to the front.
        """
        keys, references = self.keys, self.references
        free: list[int] = []
        for block in reversed(blocks):
            references[block] -= 1
            if not references[block]:
                free.append(block)
        self.num_free += len(free)
        unnamed = 0
        while unnamed < len(free) and keys[free[unnamed]] == NO_KEY:
            unnamed += 1
        self._blank += free[:unnamed]
        self._idle.extend(free[unnamed:])

    def free_blocks(self) -> list[int]:
        """The free queue, next to be taken first."""
        # Of several places of one block the last one counts.
        latest = dict.fromkeys(each for each in reversed(self._idle) if not self.references[each])
        return [*reversed(self._blank), *reversed(latest)]

    def _evict(self, count: int) -> list[int]:
        """Take from the idle blocks and forget what they hold."""
        pop, void, keys = self._idle.popleft, self._void, self.keys
        cached, copies = self._cached, self._copies
        taken: list[int] = []
        while len(taken) < count:
            block = pop()
            if void and block in void:
                self._pass_over(block)
                continue
            key, keys[block] = keys[block], NO_KEY
            if copies and key in copies:
                self._forget_copy(key, block)
            else:
                del cached[key]
            taken.append(block)
        return taken

    def _pass_over(self, block: int) -> None:
        """One of the block's void places in the queue is gone."""
        self._void[block] -= 1
        if not self._void[block]:
            del self._void[block]

    def _forget_copy(self, key: int, block: int) -> None:
        others = self._copies[key]
        if self._cached[key] == block:
            self._cached[key] = others.pop()
        else:
            others.remove(block)
        if not others:
            del self._copies[key]
