"""A replay in plain Python: the form to read, and to hold the compiled one against."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from advisor.sim.cost import CostModel
from advisor.sim.played import Played, Served
from advisor.sim.scheduler import Scheduler
from advisor.sim.steps import Batch
from advisor.terms.load import Load


def play(load: Load, served: Served, scheduler: Scheduler, cost: CostModel) -> Played:
    """Play to the end of the last request, on a scheduler without any."""
    replay = _Replay(load, served, scheduler, cost)
    replay.play()
    return Played(
        log=np.array(replay.log, dtype=np.int64).reshape(len(replay.log), -1)
        if replay.log
        else np.zeros((0, 12), dtype=np.int64),
        events=np.array([each for row in replay.events for each in row], dtype=np.int64),
        preemptions=scheduler.preemptions,
        prefix_queries=scheduler.prefix_queries,
        prefix_hits=scheduler.prefix_hits,
        queued_ns=replay.queued_ns,
    )


@dataclass(slots=True)
class _Replay:
    """Time moves from the end of one step to the next; arrivals join in between."""

    load: Load
    served: Served
    scheduler: Scheduler
    cost: CostModel
    log: list[tuple[int, ...]] = field(default_factory=list)
    #: by served request
    events: list[list[int]] = field(default_factory=list)
    #: by index in the scheduler, which served request it is
    joined: list[int] = field(default_factory=list)
    #: index in the scheduler -> arrival of one that was never admitted
    arrived: dict[int, int] = field(default_factory=dict)
    #: (arrival, served request) of those whose arrival is known and to come, a heap
    pending: list[tuple[int, int]] = field(default_factory=list)
    #: served request -> the turn that waits for its answer
    followers: dict[int, int] = field(default_factory=dict)
    queued_ns: int = 0
    now_ns: int = 0
    #: when the device can start another step
    free_ns: int = 0
    #: (its end, the batch), one or two
    in_flight: deque[tuple[int, Batch]] = field(default_factory=deque)

    def play(self) -> None:
        """As vLLM's engine core loops: schedule while fewer batches are in flight than may be,
        then wait for the oldest.
        """
        scheduler, pending = self.scheduler, self.pending
        for i, (arrival_ns, before) in enumerate(self._arrivals()):
            self.events.append([])
            if before < 0:
                heappush(pending, (arrival_ns, i))
            else:
                self.followers[before] = i
        while True:
            while pending and pending[0][0] <= self.now_ns:
                self._join(*heappop(pending))
            if len(self.in_flight) < self.cost.depth and (scheduler.running or scheduler.waiting):
                if self._schedule() and len(self.in_flight) < self.cost.depth:
                    continue
            elif not self.in_flight:
                if not pending:
                    return
                self.now_ns = pending[0][0]
                continue
            self._complete()

    def _arrivals(self) -> list[tuple[int, int]]:
        served = self.served
        return list(zip(served.arrival_ns.tolist(), served.before.tolist(), strict=True))

    def _join(self, arrival_ns: int, i: int) -> None:
        load, row = self.load, self.served.rows[i]
        ids = load.ids[load.id_offsets[row] : load.id_offsets[row + 1]].tolist()
        prompt, output = int(load.input_length[row]), int(load.output_length[row])
        index = self.scheduler.add(prompt, output, ids, load.block_tokens)
        self.arrived[index] = arrival_ns
        self.joined.append(i)

    def _schedule(self) -> bool:
        """Put a batch into flight; False when there is nothing to compute."""
        scheduler = self.scheduler
        batch = scheduler.schedule()
        if not batch.requests:
            return False
        for index in batch.requests:
            self.queued_ns += self.now_ns - self.arrived.pop(index, self.now_ns)
        start_ns = max(self.now_ns, self.free_ns)
        busy_ns = self.cost.step_ns(batch, len(self.log))
        end_ns = start_ns + busy_ns
        self.free_ns = start_ns + self.cost.cycle_ns(busy_ns, batch.sequences)
        self.in_flight.append((end_ns, batch))
        self.log.append(
            (
                end_ns,
                len(scheduler.running),
                len(scheduler.waiting),
                scheduler.pool.num_usable - scheduler.pool.num_free,
                batch.sequences,
                batch.total_tokens,
                batch.context_tokens,
                batch.prefill_pairs,
                batch.prefills,
                batch.prompt_requests,
                batch.prompt_tokens,
                busy_ns,
            )
        )
        return True

    def _complete(self) -> None:
        """Wait for the oldest batch and hand out its tokens."""
        end_ns, batch = self.in_flight.popleft()
        self.now_ns = max(self.now_ns, end_ns)
        received_ns = end_ns + self.cost.emit_ns
        emitted, finished = self.scheduler.complete(batch)
        for index in emitted:
            self.events[self.joined[index]].append(received_ns)
        for index in finished:
            follower = self.followers.get(self.joined[index])
            if follower is not None:
                arrival_ns = received_ns + int(self.served.arrival_ns[follower])
                heappush(self.pending, (arrival_ns, follower))
