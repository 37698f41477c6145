"""What the steps left behind, in flat arrays: step ends, gauges, tokens as ranges of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One row a step, in order of time."""

    #: int64, after the start of the replay
    step_end_ns: Int64
    #: int64, requests running in, and waiting at, the step
    running: Int64
    waiting: Int64
    #: int64, blocks held during the step
    used_blocks: Int64
    #: blocks that can be held at most
    num_usable_blocks: int

    @property
    def kv_cache_usage(self) -> np.typing.NDArray[np.float64]:
        """Share of the pool in use, 0..1."""
        return self.used_blocks / self.num_usable_blocks


class StepLog:
    """Grows step by step."""

    def __init__(self) -> None:
        self._end_ns: list[int] = []
        self._running: list[int] = []
        self._waiting: list[int] = []
        self._used: list[int] = []

    @property
    def num_steps(self) -> int:
        return len(self._end_ns)

    def add(self, end_ns: int, running: int, waiting: int, used: int) -> None:
        self._end_ns.append(end_ns)
        self._running.append(running)
        self._waiting.append(waiting)
        self._used.append(used)

    def add_run(
        self, end_ns: list[int], running: int, waiting: list[int], used: list[int]
    ) -> None:
        """One each for every step, but for what is the same in all of them."""
        self._end_ns += end_ns
        self._running += [running] * len(end_ns)
        self._waiting += waiting
        self._used += used

    def timeline(self, num_usable_blocks: int) -> Timeline:
        columns = (self._end_ns, self._running, self._waiting, self._used)
        ends, running, waiting, used = (np.array(each, dtype=np.int64) for each in columns)
        return Timeline(ends, running, waiting, used, num_usable_blocks)


class TokenLog:
    """Which steps gave each request a token: one, or a few ranges of consecutive steps."""

    def __init__(self) -> None:
        self._open_start: list[int] = []
        self._open_end: list[int] = []
        self._closed: list[tuple[int, int, int]] = []

    def add(self, requests: Sequence[int], first: int, count: int) -> None:
        """Each of the requests got one token in each of the steps first .. first + count - 1."""
        starts, ends = self._open_start, self._open_end
        for request in requests:
            while request >= len(ends):
                starts.append(-1)
                ends.append(-1)
            if ends[request] != first:
                if starts[request] >= 0:
                    self._closed.append((request, starts[request], ends[request]))
                starts[request] = first
            ends[request] = first + count

    def steps(self, num_requests: int) -> tuple[Int64, Int64]:
        """(int64[num_requests] tokens of each, int64[tokens] their steps, by request)."""
        opened = [
            (request, start, end)
            for request, (start, end) in enumerate(
                zip(self._open_start, self._open_end, strict=True)
            )
            if start >= 0
        ]
        rows = np.array(sorted(self._closed + opened), dtype=np.int64).reshape(-1, 3)
        requests, starts, ends = rows.T
        lengths = ends - starts
        counts = np.bincount(requests, weights=lengths, minlength=num_requests).astype(np.int64)
        before = np.cumsum(lengths) - lengths
        steps: Int64 = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return counts, steps
