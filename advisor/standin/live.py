"""The simulator's scheduler stepped in real time, with one open stream for each request."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from advisor.sim import EngineConfig
from advisor.sim.cost import INGEST_NS, CostModel
from advisor.sim.scheduler import Scheduler
from advisor.sim.steps import Batch, Limits

_NS_PER_S = 1e9


class EngineDead(Exception):
    """Nothing more will be generated, for this request or any other."""


class Stream:
    """Tokens of one request that its consumer has not yet taken."""

    def __init__(self) -> None:
        self.pending = 0
        self.is_finished = False
        self.changed = asyncio.Event()


class LiveEngine:
    """One scheduler; `run` must be running for streams to advance.

    A consumer that is late finds several tokens at once, as in vLLM's output collector.
    """

    def __init__(self, config: EngineConfig, speed: float, seed: int) -> None:
        self.config = config
        self.scheduler = Scheduler(Limits.of(config))
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished = 0
        #: whether nothing will ever be generated again
        self.is_dead = False
        #: whether it hangs: alive to whoever asks, and idle
        self.is_halted = False
        #: every step takes so many times as long
        self.slowness = 1.0
        self._cost = CostModel.of(config, seed)
        self._speed = speed
        self._steps = 0
        self._streams: dict[int, Stream] = {}
        self._work = asyncio.Event()

    async def generate(
        self, prompt: Sequence[int], output_tokens: int
    ) -> AsyncGenerator[int, None]:
        """How many tokens came each time some did; leaving early takes the request out.

        Raises EngineDead once the engine is.
        """
        if self.is_dead:
            raise EngineDead
        size = self.config.block_size
        # The host's share comes before the scheduler; the way back is this server's real one.
        await asyncio.sleep(INGEST_NS / _NS_PER_S / self._speed)
        index = self.scheduler.add(len(prompt), output_tokens, prefix_ids(prompt, size), size)
        stream = self._streams[index] = Stream()
        self._work.set()
        try:
            while not (stream.is_finished and stream.pending == 0):
                await stream.changed.wait()
                stream.changed.clear()
                if self.is_dead:
                    raise EngineDead
                count, stream.pending = stream.pending, 0
                if count:
                    yield count
        finally:
            del self._streams[index]
            if not stream.is_finished:
                self.scheduler.remove(index)

    def fail(self) -> None:
        """Die: every open stream ends with EngineDead, and so does every later one."""
        self.is_dead = True
        for stream in self._streams.values():
            stream.changed.set()

    def halt(self) -> None:
        """Take no step more, and go on accepting requests."""
        self.is_halted = True

    def reset_prefix_cache(self) -> bool:
        """Forget all cached content; False, as vLLM, while any block is held."""
        pool = self.scheduler.pool
        if pool.num_free < pool.num_usable:
            return False
        pool.release(pool.take(pool.num_usable))
        return True

    async def run(self) -> None:
        """Step until cancelled."""
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                await self._drain()
        finally:
            self.is_dead = True

    async def _drain(self) -> None:
        """Step until nothing is left, as `sim.plain` does in virtual time.

        With asynchronous scheduling the next batch is chosen while one runs. Each step ends at
        its own moment, without drift.
        """
        loop = asyncio.get_running_loop()
        # the end of the step before, and when the device can start another
        now = free = loop.time()
        in_flight: deque[tuple[float, Batch]] = deque()
        while True:
            if len(in_flight) < self._cost.depth and self._has_work():
                batch = self.scheduler.schedule()
                if batch.requests:
                    start = max(now, free)
                    busy_s, cycle_s = self._step_s(batch)
                    free = start + cycle_s
                    in_flight.append((start + busy_s, batch))
                    if len(in_flight) < self._cost.depth:
                        continue
            if not in_flight:
                return
            now, batch = in_flight.popleft()
            await asyncio.sleep(max(0.0, now - loop.time()))
            self._deliver(*self.scheduler.complete(batch))

    def _has_work(self) -> bool:
        able = not (self.is_dead or self.is_halted)
        return able and bool(self.scheduler.running or self.scheduler.waiting)

    def _step_s(self, batch: Batch) -> tuple[float, float]:
        """How long it computes, and until the next can start; in seconds of the clock."""
        busy_ns = self._cost.step_ns(batch, self._steps)
        self._steps += 1
        unit = _NS_PER_S * self._speed / self.slowness
        return busy_ns / unit, self._cost.cycle_ns(busy_ns, batch.sequences) / unit

    def _deliver(self, emitted: list[int], finished: list[int]) -> None:
        for index in emitted:
            first = self.scheduler.emitted[index] == 1
            self.prompt_tokens += self.scheduler.prompt[index] if first else 0
            self._streams[index].pending += 1
            self._streams[index].changed.set()
        for index in finished:
            self._streams[index].is_finished = True
        self.generation_tokens += len(emitted)
        self.finished += len(finished)


def prefix_ids(prompt: Sequence[int], block_size: int) -> list[int]:
    """One id for each block of a prompt that names it and all before it."""
    ids: list[int] = []
    before = 0
    for start in range(0, len(prompt), block_size):
        before = hash((before, *prompt[start : start + block_size]))
        ids.append(before)
    return ids
