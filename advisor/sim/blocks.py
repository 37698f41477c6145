"""The KV block pool: reference counts, the free queue, and the prefix cache over both.

Flat arrays indexed by block. Block 0 is vLLM's null block, never handed out; here it also closes
the ring of free blocks.
"""

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
        # The free queue as a ring: taken after block 0, given back on either side of it.
        self._next = [*range(1, num_blocks), 0]
        self._previous = [num_blocks - 1, *range(num_blocks - 1)]
        # Key -> one block that holds it; others with the same key hang in a ring behind it.
        self._cached: dict[int, int] = {}
        self._same_next = list(range(num_blocks))
        self._same_previous = list(range(num_blocks))

    def find(self, key: int) -> int:
        """A block holding the prefix named by `key`, or NOT_FOUND."""
        return self._cached.get(key, NOT_FOUND)

    def acquire(self, blocks: Sequence[int]) -> None:
        """Add a reference to cached blocks; those nobody held leave the free queue."""
        for block in blocks:
            if self.references[block] == 0:
                self._unlink(block)
            self.references[block] += 1

    def take(self, count: int) -> list[int]:
        """The `count` blocks longest free, their cached content forgotten; count <= num_free."""
        following, previous = self._next, self._previous
        keys, references = self.keys, self.references
        taken: list[int] = []
        block = following[0]
        for _ in range(count):
            if keys[block] != NO_KEY:
                self._forget(block)
            references[block] = 1
            taken.append(block)
            block = following[block]
        following[0] = block
        previous[block] = 0
        self.num_free -= count
        return taken

    def name(self, blocks: Sequence[int], keys: Sequence[int]) -> None:
        """Full blocks become cache entries; an earlier one of the same key stays the first."""
        cached, names = self._cached, self.keys
        for block, key in zip(blocks, keys, strict=True):
            names[block] = key
            first = cached.setdefault(key, block)
            if first != block:
                after = self._same_next[first]
                self._same_next[first], self._same_previous[block] = block, first
                self._same_next[block], self._same_previous[after] = after, block

    def release(self, blocks: Sequence[int]) -> None:
        """Drop a reference to a request's blocks, last block first.

        What is cached goes to the back of the free queue (so heads of prefixes live longest),
        what is not to the front.
        """
        following, previous = self._next, self._previous
        keys, references = self.keys, self.references
        for block in reversed(blocks):
            references[block] -= 1
            if references[block]:
                continue
            before, after = (0, following[0]) if keys[block] == NO_KEY else (previous[0], 0)
            following[before], previous[block] = block, before
            following[block], previous[after] = after, block
            self.num_free += 1

    def free_blocks(self) -> list[int]:
        """The free queue, next to be taken first."""
        queue: list[int] = []
        block = self._next[0]
        while block:
            queue.append(block)
            block = self._next[block]
        return queue

    def _unlink(self, block: int) -> None:
        before, after = self._previous[block], self._next[block]
        self._next[before], self._previous[after] = after, before
        self.num_free -= 1

    def _forget(self, block: int) -> None:
        key = self.keys[block]
        self.keys[block] = NO_KEY
        after, before = self._same_next[block], self._same_previous[block]
        if after == block:
            del self._cached[key]
            return
        self._same_next[before], self._same_previous[after] = after, before
        self._same_next[block] = self._same_previous[block] = block
        if self._cached[key] == block:
            self._cached[key] = after
