"""The scheduler fed with a real launch's log: does it choose the same steps?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.calibrate.iterlog import LoggedStep
from advisor.sim.scheduler import Scheduler
from advisor.sim.steps import Batch, Limits
from advisor.terms.load import Load
from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A step that came out otherwise: requests and tokens in context, then in generation."""

    logged: LoggedStep
    modelled: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Relived:
    """A log that was followed, up to its end or to the first mismatch."""

    mismatch: Mismatch | None
    #: equal steps
    steps: int
    #: int64[steps, 6]: sequences, tokens, context_tokens, prefill_pairs, prefills, elapsed_ns
    composition: Int64
    #: int64[steps], blocks held when the step was over
    held_blocks: Int64
    #: int64[requests that arrived], the step before which each did
    arrived: Int64
    #: int64[tokens, 2], request and step of each output token, in order of the steps
    emitted: Int64
    #: bool[steps], whether anything was left to do when the step was over
    busy_after: NDArray[np.bool_]
    preemptions: int
    prefix_queries: int
    prefix_hits: int


def relive(load: Load, limits: Limits, logged: Sequence[LoggedStep]) -> Relived:
    """Follow a log of a launch that scheduled synchronously; the load is in order of arrival.

    The log has no clock, so a request arrives with the first step that computes something for
    one more context request than are under way. Until then its arrival could change nothing.
    """
    scheduler = Scheduler(limits)
    rows: list[tuple[int, ...]] = []
    held: list[int] = []
    arrived: list[int] = []
    emitted: list[tuple[int, int]] = []
    busy_after: list[bool] = []
    mismatch = None
    for step in logged:
        new = step.context_requests - _open_prompts(scheduler)
        for _ in range(min(new, len(load) - len(arrived))):
            _join(scheduler, load, len(arrived))
            arrived.append(len(rows))
        batch = scheduler.schedule()
        modelled = _counts(batch)
        if modelled != step.counts:
            mismatch = Mismatch(step, modelled)
            break
        emitted.extend((request, len(rows)) for request in scheduler.complete(batch)[0])
        rows.append(_composition(batch, step.elapsed_ns))
        busy_after.append(bool(scheduler.running or scheduler.waiting))
        held.append(scheduler.pool.num_usable - scheduler.pool.num_free)
    return Relived(
        mismatch=mismatch,
        steps=len(rows),
        composition=np.array(rows, dtype=np.int64).reshape(-1, 6),
        held_blocks=np.array(held, dtype=np.int64),
        arrived=np.array(arrived, dtype=np.int64),
        emitted=np.array(emitted, dtype=np.int64).reshape(-1, 2),
        busy_after=np.array(busy_after, dtype=np.bool_),
        preemptions=scheduler.preemptions,
        prefix_queries=scheduler.prefix_queries,
        prefix_hits=scheduler.prefix_hits,
    )


def _open_prompts(scheduler: Scheduler) -> int:
    """Requests under way that have no output token yet."""
    under_way = (*scheduler.running, *scheduler.waiting)
    return sum(scheduler.tokens[i] == scheduler.prompt[i] for i in under_way)


def _counts(batch: Batch) -> tuple[int, int, int, int]:
    """As `LoggedStep.counts`."""
    return (
        batch.prompt_requests,
        batch.prompt_tokens,
        batch.sequences - batch.prompt_requests,
        batch.total_tokens - batch.prompt_tokens,
    )


def _join(scheduler: Scheduler, load: Load, row: int) -> None:
    ids = load.ids[load.id_offsets[row] : load.id_offsets[row + 1]].tolist()
    prompt, output = int(load.input_length[row]), int(load.output_length[row])
    scheduler.add(prompt, output, ids, load.block_tokens)


def _composition(batch: Batch, elapsed_ns: int) -> tuple[int, ...]:
    return (
        batch.sequences,
        batch.total_tokens,
        batch.context_tokens,
        batch.prefill_pairs,
        batch.prefills,
        elapsed_ns,
    )
