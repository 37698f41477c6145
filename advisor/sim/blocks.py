"""The KV block pool in plain Python: numbered blocks, a free queue, the prefix cache over them.

Follows vLLM 0.33.0 `vllm/v1/core/block_pool.py`. `kernel.py` is the same, compiled.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence


class BlockPool:
    """`num_blocks` blocks; number 0 is vLLM's null block and is never given away."""

    def __init__(self, num_blocks: int) -> None:
        self.num_usable = num_blocks - 1
        self._references = [0] * num_blocks
        #: block -> the key of its content, for full blocks
        self._keys: dict[int, Hashable] = {}
        #: key -> its blocks, the one that serves first
        self._cached: dict[Hashable, dict[int, None]] = {}
        #: the next to be taken first
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def find(self, keys: Iterable[Hashable]) -> list[int]:
        """Cached blocks with these keys, up to the first key without."""
        found: list[int] = []
        for key in keys:
            blocks = self._cached.get(key)
            if blocks is None:
                break
            found.append(next(iter(blocks)))
        return found

    def count_idle(self, blocks: Iterable[int]) -> int:
        """How many of these blocks nobody holds."""
        return sum(self._references[block] == 0 for block in blocks)

    def acquire(self, blocks: Iterable[int]) -> None:
        """Hold cached blocks; one that nobody held leaves the free queue."""
        for block in blocks:
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def take(self, count: int) -> list[int]:
        """Hold the `count` blocks longest free, their cached content forgotten."""
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._references[block] = 1
            key = self._keys.pop(block, None)
            if key is not None:
                del self._cached[key][block]
                if not self._cached[key]:
                    del self._cached[key]
        return taken

    def name(self, block: int, key: Hashable) -> None:
        """A held block is full now and its content can be found."""
        self._keys[block] = key
        self._cached.setdefault(key, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of a request's blocks.

        Last block first they go to the back of the free queue, so heads of prefixes live longest;
        blocks without findable content go to its front.
        """
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                self._free.move_to_end(block, last=block in self._keys)
