"""Other ways to batch, beside vLLM's, to see what its own is worth. Plain Python, synchronous.

Static batching and prefill-first continuous batching are what servers did before prompts were
computed in chunks beside decodes; the split over two pools is disaggregated prefill.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from advisor.sim import plain
from advisor.sim.config import EngineConfig
from advisor.sim.cost import CostModel
from advisor.sim.played import Served
from advisor.sim.scheduler import Scheduler
from advisor.sim.steps import Batch, Limits
from advisor.terms.load import Load
from advisor.terms.traces import Int64


class Batching(StrEnum):
    """How steps are made up."""

    STATIC = "static"
    PREFILL_FIRST = "prefill_first"
    CHUNKED = "chunked"


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """What one way of batching gave, by request in order of arrival; times in ns."""

    planned_ns: Int64
    first_ns: Int64
    last_ns: Int64
    #: int64, all gaps between two tokens of one request
    gaps_ns: Int64
    #: prompt and generated tokens a second, from the first arrival to the last token
    tokens_per_s: float


class PrefillFirst(Scheduler):
    """Whole prompts as soon as they fit, in steps of their own; decodes wait meanwhile."""

    def schedule(self) -> Batch:
        batch = Batch()
        self._schedule_waiting(batch, self.limits.max_num_batched_tokens)
        if not batch.requests:
            self._schedule_running(batch)
        return batch


class Static(Scheduler):
    """A group is formed, computed to the end of its longest request, then the next is formed.

    Who is finished earlier is computed along, as padding.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._to_admit = 0
        self._padding: list[int] = []

    def schedule(self) -> Batch:
        batch, budget = Batch(), self.limits.max_num_batched_tokens
        if not self.running:
            self._to_admit, self._padding = len(self.waiting), []
        while self._to_admit and (hits := self._admissible(budget)) is not None:
            index = self.waiting.popleft()
            self._admit(index, hits)
            count = self._outstanding(index)
            self._grow(index, count)
            self._enter(batch, index, count)
            budget -= count
            self._to_admit -= 1
        if not batch.requests:
            # Complete, or as many as the pool and the limits hold.
            self._to_admit = 0
            self._schedule_running(batch)
            batch.total_tokens += len(self._padding)
            batch.context_tokens += sum(self._padding)
        return batch

    def complete(self, batch: Batch) -> tuple[list[int], list[int]]:
        emitted, finished = super().complete(batch)
        self._padding += [self.tokens[index] for index in finished]
        return emitted, finished


class Handed(Scheduler):
    """The decode side of a split: a prompt's KV cache comes with the request."""

    def _admit(self, index: int, hits: list[int]) -> None:
        super()._admit(index, hits)
        if not self.num_preempted[index]:
            self._grow(index, self.tokens[index] - 1 - self.computed[index])


_SCHEDULERS: dict[Batching, Callable[[Limits], Scheduler]] = {
    Batching.STATIC: Static,
    Batching.PREFILL_FIRST: PrefillFirst,
    Batching.CHUNKED: Scheduler,
}


def play_variant(load: Load, config: EngineConfig, batching: Batching) -> Variant:
    """One way of batching on one device; `config` limits the tokens of a step.

    Static and prefill-first take whole prompts, so their budget must hold the longest.
    """
    limits = Limits.of(config)
    if batching is not Batching.CHUNKED:
        limits = replace(limits, enable_chunked_prefill=False)
    events = _events(load, config, _SCHEDULERS[batching](limits), 1)
    return _variant(load, events)


def play_split(
    load: Load, config: EngineConfig, link_bytes_per_s: float, share: float = 1.0
) -> Variant:
    """Prefill on one pool, decode on another, the KV cache sent over in between.

    Each pool is a device of `config`, or the `share` of one: half a device has half its bandwidth,
    arithmetic and KV pool, though each half still holds all weights.
    """
    slower = round(1 / share)
    part = replace(
        config,
        memory=replace(config.memory, num_blocks=round(config.memory.num_blocks * share)),
    )
    ones = np.ones(len(load), dtype=np.int64)
    limits = Limits.of(part)
    prefilled = _events(replace(load, output_length=ones), part, Scheduler(limits), slower)
    first_ns = np.array([each[0] for each in prefilled], dtype=np.int64)
    transfer_ns = load.input_length * config.kv_bytes_per_token / link_bytes_per_s * 1e9
    handed = replace(
        load,
        at_ns=first_ns + transfer_ns.astype(np.int64),
        input_length=load.input_length + 1,
        output_length=np.maximum(load.output_length - 1, 1),
    )
    decoded = _events(handed, part, Handed(limits), slower)
    several = load.output_length > 1
    return _variant(
        load,
        [
            [int(first), *(rest if more else [])]
            for first, rest, more in zip(first_ns, decoded, several, strict=True)
        ],
    )


def _events(
    load: Load, config: EngineConfig, scheduler: Scheduler, slower: int
) -> list[list[int]]:
    """Times of each request's tokens, by row; the load's rows need not be in order."""
    cost = replace(CostModel.of(config), depth=1, ingest_ns=0, emit_ns=0)
    cost = replace(cost, factors=cost.factors * slower)
    served = Served.of(load, config.max_model_len + 1, 0)
    played = plain.play(load, served, scheduler, cost)
    ends = np.cumsum(load.output_length[served.rows])
    by_row = dict(zip(served.rows.tolist(), np.split(played.events, ends[:-1]), strict=True))
    return [by_row[row].tolist() for row in range(len(load))]


def _variant(load: Load, events: list[list[int]]) -> Variant:
    first, last = (np.array([each[i] for each in events], dtype=np.int64) for i in (0, -1))
    gaps = np.concatenate([np.diff(each) for each in events]).astype(np.int64)
    tokens = float(load.input_length.sum() + load.output_length.sum())
    seconds = float(last.max() - load.at_ns.min()) / 1e9
    return Variant(load.at_ns, first, last, gaps, tokens / seconds)
