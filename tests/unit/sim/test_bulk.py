"""Step for step, the scheduler in bulk does what the plain one does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.sim.bulk import BulkScheduler
from advisor.sim.scheduler import Scheduler
from advisor.sim.steplog import TokenLog
from advisor.sim.steps import Batch
from tests.unit.sim.test_scheduler import REQUESTS, limits, prompt_ids


def sums(scheduler: Scheduler, batch: Batch) -> list[object]:
    """All that a step's duration and gauges depend on."""
    return [
        (batch.total_tokens, batch.context_tokens, batch.prefill_pairs, batch.sequences),
        (list(scheduler.running), list(scheduler.waiting), scheduler.pool.num_free),
        (scheduler.preemptions, scheduler.prefix_queries, scheduler.prefix_hits),
    ]


def test_who_ends_in_one_step_is_released_in_order_of_admission() -> None:
    scheduler = BulkScheduler(limits(num_blocks=9), TokenLog())
    scheduler.add(33, 2, (1,), 64)
    scheduler.complete(scheduler.schedule())
    scheduler.add(33, 1, (2,), 64)
    assert scheduler.complete(scheduler.schedule())[1] == [0, 1]
    # Six of eight blocks: the four blank ones, and what the first one left.
    scheduler.pool.take(6)
    scheduler.pool.release([], 6)
    first, second = scheduler.add(33, 1, (1,), 64), scheduler.add(33, 1, (2,), 64)
    scheduler.schedule()
    assert [scheduler.cached_tokens[i] for i in (first, second)] == [0, 32]


@settings(deadline=None)
@given(
    requests=REQUESTS,
    budget=st.integers(8, 80),
    seqs=st.integers(1, 6),
    threshold=st.sampled_from([0, 0, 7, 20]),
    chunked=st.booleans(),
    removals=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 11)), max_size=4),
)
def test_same_steps_though_clients_go_away(
    requests: list[tuple[int, int, int, int]],
    budget: int,
    seqs: int,
    threshold: int,
    chunked: bool,
    removals: list[tuple[int, int]],
) -> None:
    chosen = limits(
        max_num_batched_tokens=budget if chunked else 256,
        max_num_seqs=seqs,
        num_blocks=16,
        long_prefill_token_threshold=threshold,
        enable_chunked_prefill=chunked,
    )
    log = TokenLog()
    plain, bulk = Scheduler(chosen), BulkScheduler(chosen, log)
    got = [0] * len(requests)
    step = joined = 0
    while joined < len(requests) or plain.running or plain.waiting:
        while joined < len(requests) and requests[joined][0] <= step:
            _, prompt, output, prefix = requests[joined]
            for scheduler in (plain, bulk):
                scheduler.add(prompt, output, prompt_ids(joined, prompt, prefix), 24)
            joined += 1
        for at, index in removals:
            if at == step and index < joined:
                plain.remove(index)
                bulk.remove(index)
        batch, in_bulk = plain.schedule(), bulk.schedule()
        assert sums(plain, batch) == sums(bulk, in_bulk)
        emitted, finished = plain.complete(batch)
        for index in emitted:
            got[index] += 1
        log.add(bulk.complete(in_bulk)[0], step, 1)
        assert bulk.running == plain.running
        assert not set(finished) & set(bulk.running)
        step += 1
    assert bulk.pool.num_free == bulk.pool.num_usable
    counts, _ = log.steps(len(requests))
    assert counts.tolist() == got
