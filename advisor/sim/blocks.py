"""The KV block pool: how many blocks are free, and the prefix cache over them.

A block matters by what it holds, so blocks have no numbers here. Content has: each full block
of a prefix has a key, those of neighbours are neighbours, and work is done on ranges of keys.

vLLM frees blocks with cached content to the back of its free queue and others to the front, so
the queue is a number of blank blocks and behind them a queue of idle content, which is forgotten
once its block is taken.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

#: What a key can stand for, besides an idle block's place in the queue, 1 or more, and the number
#: of requests that hold the block, negative.
_ABSENT = 0
_HELD = -1


class BlockPool:
    """`num_blocks` blocks, all but vLLM's null block to give away."""

    def __init__(self, num_blocks: int) -> None:
        self.num_usable = num_blocks - 1
        self.num_free = self.num_usable
        self._num_blank = self.num_usable
        self._states = array("q")
        # (place, keys): the last key goes first; those whose state is another by now are void.
        self._idle: deque[tuple[int, range]] = deque()
        self._places = 0
        # Key -> keys of further blocks with the same content, the next to serve last; and the one
        # that serves since the first is gone.
        self._copies: dict[int, list[int]] = {}
        self._serving: dict[int, int] = {}

    def new_keys(self, count: int) -> range:
        """Keys, neighbours all, of content not seen before."""
        first = len(self._states)
        self._states.frombytes(bytes(count * self._states.itemsize))
        return range(first, first + count)

    def find(self, keys: Iterable[range]) -> list[range]:
        """Cached content with these keys or copies of it, up to the first key without."""
        found: list[range] = []
        for span in keys:
            present = self._present(span)
            while present != span:
                if present:
                    found.append(present)
                copy = self._copy_of(present.stop)
                if copy is None:
                    return found
                found.append(range(copy, copy + 1))
                span = range(present.stop + 1, span.stop)
                present = self._present(span)
            if span:
                found.append(span)
        return found

    def has_copies(self, keys: Iterable[range]) -> bool:
        """Whether any of these keys' content may be in several blocks."""
        copies = self._copies.keys()
        return bool(copies) and not all(copies.isdisjoint(span) for span in keys)

    def count_idle(self, keys: Iterable[range]) -> int:
        """How many of these present keys nobody holds."""
        return sum(len(run) for run in self._runs(keys) if self._states[run.start] > 0)

    def acquire(self, keys: Iterable[range]) -> None:
        """Hold cached content; what nobody held leaves the free queue."""
        for run in self._runs(keys):
            state = self._states[run.start]
            if state > 0:
                self.num_free -= len(run)
            self._set(run, min(state, 0) - 1)

    def take(self, count: int) -> None:
        """Hold the `count` blocks longest free, their cached content forgotten."""
        self.num_free -= count
        self._num_blank -= count
        if self._num_blank < 0:
            self._forget(-self._num_blank)
            self._num_blank = 0

    def name(self, keys: Iterable[range]) -> list[range]:
        """Blocks taken before now hold this content; returns their keys, new ones for copies."""
        named: list[range] = []
        for span in keys:
            if self._is_all(span, _ABSENT) and not self.has_copies([span]):
                self._set(span, _HELD)
                named.append(span)
            else:
                named += [self._name(key) for key in span]
        return named

    def release(self, keys: Sequence[range], unnamed: int) -> None:
        """Let go of a request's blocks, named and unnamed ones.

        Last block first they go to the back of the free queue, so heads of prefixes live longest.
        """
        self._num_blank += unnamed
        self.num_free += unnamed
        self._places += 1
        for run in reversed(list(self._runs(keys))):
            state = self._states[run.start]
            if state == _HELD:
                self._idle.append((self._places, run))
                self.num_free += len(run)
                self._set(run, self._places)
            else:
                self._set(run, state + 1)

    def _forget(self, count: int) -> None:
        """Forget the `count` blocks longest idle."""
        while count:
            place, span = self._idle[0]
            tail = span[-count:]
            if not self._is_all(tail, place):
                tail = span[-1:]
            if self._states[tail.start] == place:
                self._set(tail, _ABSENT)
                count -= len(tail)
            if tail == span:
                self._idle.popleft()
            else:
                self._idle[0] = place, span[: -len(tail)]

    def _name(self, key: int) -> range:
        if self._states[key] == _ABSENT and self._copy_of(key) is None:
            named = range(key, key + 1)
        else:
            named = self.new_keys(1)
            self._copies.setdefault(key, []).append(named.start)
        self._set(named, _HELD)
        return named

    def _copy_of(self, key: int) -> int | None:
        """The key of a copy of what is absent itself."""
        copies = self._copies.get(key)
        if copies is None:
            return None
        serving = self._serving.get(key)
        while serving is None or self._states[serving] == _ABSENT:
            if not copies:
                del self._copies[key]
                self._serving.pop(key, None)
                return None
            serving = self._serving[key] = copies.pop()
        return serving

    def _present(self, span: range) -> range:
        """The keys up to the first absent one."""
        try:
            return range(span.start, self._states.index(_ABSENT, span.start, span.stop))
        except ValueError:
            return span

    def _runs(self, keys: Iterable[range]) -> Iterator[range]:
        """The same keys in runs that each have one state."""
        for span in keys:
            if self._is_all(span, self._states[span.start]):
                yield span
                continue
            start = span.start
            for _, group in groupby(self._states[span.start : span.stop]):
                stop = start + len(list(group))
                yield range(start, stop)
                start = stop

    def _is_all(self, span: range, state: int) -> bool:
        return self._states[span.start : span.stop] == array("q", (state,)) * len(span)

    def _set(self, span: range, state: int) -> None:
        self._states[span.start : span.stop] = array("q", (state,)) * len(span)
