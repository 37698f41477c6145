"""A replay in virtual time: planned requests in, traces, server facts and a timeline out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from advisor.sim.bulk import BulkScheduler
from advisor.sim.config import EngineConfig
from advisor.sim.cost import EMIT_NS, INGEST_NS, CostModel
from advisor.sim.scheduler import Scheduler
from advisor.sim.steplog import StepLog, Timeline, TokenLog
from advisor.sim.steps import Limits
from advisor.terms.job import ServerFacts
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import MISSING, ClientAudit, Int64, RequestStatus, Traces

#: The virtual client sends on time, always.
_AUDIT = ClientAudit(0.0, 0.0, 0.0, None, None, None, "virtual")
_NEVER = 1 << 63


@dataclass(frozen=True, slots=True, eq=False)
class SimRun:
    """What one simulated replay gave."""

    traces: Traces
    #: over the whole replay, lead-in included
    facts: ServerFacts
    timeline: Timeline


def simulate(
    requests: Sequence[PlannedRequest],
    config: EngineConfig,
    *,
    block_tokens: int,
    window_start_ns: int,
    window_end_ns: int,
    seed: int = 0,
    skip_ahead: bool = True,
) -> SimRun:
    """Play requests against the engine until the last one ends.

    `block_tokens` is what one of the requests' block ids covers. `seed` numbers the launch: two
    launches of one setting differ by a small common factor of all step times. A request whose
    prompt and output exceed max_model_len fails at once, as HTTP 400. `skip_ahead=False` takes
    every step singly; the result is the same.
    """
    replay = _Replay(requests, config, block_tokens, CostModel.of(config, seed), skip_ahead)
    replay.play()
    timeline = replay.steps.timeline(replay.scheduler.pool.num_usable)
    return SimRun(
        replay.traces(timeline.step_end_ns, window_start_ns, window_end_ns),
        replay.facts(timeline),
        timeline,
    )


class _Replay:
    """The event loop: arrivals join between steps, time moves by the duration of each step."""

    def __init__(
        self,
        requests: Sequence[PlannedRequest],
        config: EngineConfig,
        block_tokens: int,
        cost: CostModel,
        skip_ahead: bool,
    ) -> None:
        self.requests = requests
        self.steps = StepLog()
        self.tokens = TokenLog()
        limits = Limits.of(config)
        self._bulk = BulkScheduler(limits, self.tokens) if skip_ahead else None
        self.scheduler = self._bulk or Scheduler(limits)
        self._cost = cost
        self._block_tokens = block_tokens
        #: rows of `requests` that are served, in order of arrival = index in the scheduler
        self.served = sorted(
            (
                row
                for row, each in enumerate(requests)
                if each.input_length + each.output_length <= config.max_model_len
            ),
            key=lambda row: (requests[row].at_ns, row),
        )
        #: when each of them reaches the scheduler; one more, that nobody lives to see
        self._arrivals = [requests[row].at_ns + INGEST_NS for row in self.served] + [_NEVER]
        self._joined = 0
        self._now = 0

    def play(self) -> None:
        scheduler, arrivals = self.scheduler, self._arrivals
        while True:
            while arrivals[self._joined] <= self._now:
                self._join()
            if not scheduler.running and not scheduler.waiting:
                if self._joined == len(self.served):
                    return
                self._now = arrivals[self._joined]
            elif self._bulk is None or not self._skip(self._bulk):
                self._step()

    def _join(self) -> None:
        request = self.requests[self.served[self._joined]]
        self.scheduler.add(
            request.input_length, request.output_length, request.block_ids, self._block_tokens
        )
        self._joined += 1

    def _step(self) -> None:
        scheduler = self.scheduler
        batch = scheduler.schedule()
        self._now += self._cost.step_ns(
            batch.total_tokens, batch.context_tokens, batch.prefill_pairs, batch.sequences
        )
        used = scheduler.pool.num_usable - scheduler.pool.num_free
        running, waiting = len(scheduler.running), len(scheduler.waiting)
        emitted, _ = scheduler.complete(batch)
        self.tokens.add(emitted, self.steps.num_steps, 1)
        self.steps.add(self._now, running, waiting, used)

    def _skip(self, bulk: BulkScheduler) -> bool:
        """Take the coming steps without asking the scheduler, while their composition stands."""
        run = bulk.run()
        if run is None:
            return False
        arrivals, arrived, now = self._arrivals, self._joined, self._now
        first_used = used = bulk.pool.num_usable - bulk.pool.num_free
        in_queue = len(bulk.waiting) - arrived
        ends: list[int] = []
        waiting: list[int] = []
        held: list[int] = []
        durations = islice(self._cost.run_ns(run), run.steps)
        for blocks, duration_ns in zip(cycle(run.blocks), durations, strict=False):
            while arrivals[arrived] <= now:
                arrived += 1
            used += blocks
            if used > bulk.pool.num_usable or (arrived > self._joined and not run.is_closed):
                used -= blocks
                break
            now += duration_ns
            ends.append(now)
            waiting.append(in_queue + arrived)
            held.append(used)
        self._now = now
        self.steps.add_run(ends, run.sequences, waiting, held)
        bulk.advance(len(ends), used - first_used)
        return True

    def traces(self, step_end_ns: Int64, window_start_ns: int, window_end_ns: int) -> Traces:
        """Expand the ranges of steps into one event for every token."""
        n = len(self.requests)
        counts_served, steps = self.tokens.steps(len(self.served))
        events_served = step_end_ns[steps] + EMIT_NS
        rows = np.array(self.served, dtype=np.int64)
        counts = np.zeros(n, dtype=np.int64)
        counts[rows] = counts_served
        offsets = np.concatenate(([0], np.cumsum(counts)))
        # From order of arrival to order of the rows given.
        first_served = np.cumsum(counts_served) - counts_served
        shift = np.repeat(offsets[rows] - first_served, counts_served)
        events = np.empty(len(events_served), dtype=np.int64)
        events[np.arange(len(events_served)) + shift] = events_served
        planned = self._column("at_ns")
        inputs = self._column("input_length")
        ok = counts > 0
        end = planned.copy()
        end[ok] = events[offsets[1:][ok] - 1]
        return Traces(
            planned_ns=planned,
            sent_ns=planned.copy(),
            end_ns=end,
            status=np.where(ok, RequestStatus.OK, RequestStatus.HTTP).astype(np.uint8),
            counted=np.array([each.counted for each in self.requests], dtype=np.bool_),
            input_tokens=inputs,
            prompt_tokens=np.where(ok, inputs, MISSING),
            output_tokens=self._column("output_length"),
            event_offsets=offsets,
            event_ns=events,
            event_tokens=np.ones(len(events), dtype=np.int32),
            window_start_ns=window_start_ns,
            window_end_ns=window_end_ns,
            audit=_AUDIT,
        )

    def facts(self, timeline: Timeline) -> ServerFacts:
        any_step = self.steps.num_steps > 0
        served = [self.requests[row] for row in self.served]
        return ServerFacts(
            running_max=float(timeline.running.max()) if any_step else 0.0,
            waiting_max=float(timeline.waiting.max()) if any_step else 0.0,
            kv_cache_usage_max=float(timeline.kv_cache_usage.max()) if any_step else 0.0,
            preemptions=float(self.scheduler.preemptions),
            prefix_cache_queries=float(self.scheduler.prefix_queries),
            prefix_cache_hits=float(self.scheduler.prefix_hits),
            prompt_tokens=float(sum(each.input_length for each in served)),
            generation_tokens=float(sum(each.output_length for each in served)),
        )

    def _column(self, name: str) -> Int64:
        return np.array([getattr(each, name) for each in self.requests], dtype=np.int64)
