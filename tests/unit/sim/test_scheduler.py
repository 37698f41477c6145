"""The scheduler's promises, on small pools where every branch is met."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.sim.scheduler import Scheduler
from advisor.sim.steps import Limits

SIZE = 16


def limits(**changes: int | bool) -> Limits:
    chosen: dict[str, int | bool] = {
        "max_num_batched_tokens": 64,
        "max_num_seqs": 8,
        "block_size": SIZE,
        "num_blocks": 33,
        **changes,
    }
    return Limits(**chosen)  # type: ignore[arg-type]


def drain(scheduler: Scheduler) -> list[list[int]]:
    """Step to the end; which requests took part in each step."""
    took_part = []
    while scheduler.running or scheduler.waiting:
        batch = scheduler.schedule()
        took_part.append(batch.requests)
        scheduler.complete(batch)
    return took_part


def test_prefill_is_chunked_and_the_remainder_goes_to_the_next() -> None:
    scheduler = Scheduler(limits())
    scheduler.add(100, 4)
    scheduler.add(50, 4)
    first = scheduler.schedule()
    assert first.tokens == [64]
    assert scheduler.complete(first) == ([], [])
    second = scheduler.schedule()
    assert second.tokens == [36, 28]
    assert scheduler.complete(second) == ([0], [])
    third = scheduler.schedule()
    assert third.tokens == [1, 22]
    assert third.context_tokens == 101 + 50
    assert third.prefill_pairs == 22 * 28 + 22 * 23 // 2


def test_an_earlier_prefill_takes_the_budget_before_later_decodes() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=32))
    long, short = scheduler.add(200, 4), scheduler.add(10, 4)
    while scheduler.tokens[short] == 10:
        scheduler.complete(scheduler.schedule())
        if scheduler.computed[long] < 192:
            assert scheduler.running == [long]


def test_whole_prompt_must_fit_and_the_head_blocks_the_queue() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512, max_num_seqs=8))
    scheduler.add(300, 20)  # 19 of 32 blocks
    scheduler.add(240, 2)  # 15 more do not fit
    scheduler.add(16, 2)  # would fit, but is behind
    assert scheduler.schedule().requests == [0]
    assert list(scheduler.waiting) == [1, 2]


def test_without_chunking_a_prompt_waits_for_a_step_of_its_own_size() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=64, enable_chunked_prefill=False))
    scheduler.add(40, 3)
    scheduler.add(60, 3)
    assert scheduler.schedule().tokens == [40]


def test_threshold_caps_a_long_prefill_only_in_company() -> None:
    alone = Scheduler(limits(long_prefill_token_threshold=20))
    alone.add(100, 2)
    assert alone.schedule().tokens == [64]
    company = Scheduler(limits(long_prefill_token_threshold=20))
    company.add(100, 2)
    company.add(10, 2)
    assert company.schedule().tokens == [20, 10]


def test_the_last_running_is_preempted_requeued_first_and_nothing_admitted_then() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512, num_blocks=17))
    scheduler.add(128, 100)
    scheduler.add(128, 100)
    scheduler.complete(scheduler.schedule())
    scheduler.add(16, 2)
    batch = scheduler.schedule()
    assert batch.requests == [0]
    assert list(scheduler.waiting) == [1, 2]
    assert scheduler.preemptions == 1
    # The generated token is kept and will be computed again with the prompt.
    assert (scheduler.tokens[1], scheduler.computed[1]) == (129, 0)


def test_nothing_is_admitted_in_the_step_of_a_preemption_though_it_would_fit() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512, num_blocks=13))
    # Equal up to token 144; the second computes its last full block again, as a copy.
    longer = scheduler.add(150, 50, (1, 2), 144)
    copy = scheduler.add(144, 50, (1,), 144)
    while not scheduler.preemptions:
        batch = scheduler.schedule()
        scheduler.complete(batch)
    assert batch.requests == [longer]
    # Its copy is gone and the other's block serves: now it fits.
    assert scheduler.schedule().requests == [longer, copy]


def test_cached_blocks_that_nobody_holds_count_against_the_free_ones() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512, num_blocks=17))
    scheduler.add(128, 1, (1,), 128)
    scheduler.complete(scheduler.schedule())
    scheduler.add(127, 50)
    scheduler.schedule()
    # 8 blocks are free, all of them the cached prefix; with it in use there is no ninth.
    scheduler.add(144, 1, (1, 2), 128)
    assert scheduler.schedule().requests == [1]
    assert list(scheduler.waiting) == [2]


def test_shared_prefix_hits_within_the_same_step_and_never_the_last_token() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512))
    for _ in range(2):
        scheduler.add(64, 2, (7, 8), 32)
    batch = scheduler.schedule()
    assert batch.tokens == [64, 16]
    assert (scheduler.prefix_queries, scheduler.prefix_hits) == (128, 48)


def test_partial_sharing_stops_at_the_last_full_block_of_equal_ids() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512))
    scheduler.add(80, 2, (1, 2, 3), 40)
    scheduler.add(80, 2, (1, 9, 9), 40)
    # Equal up to token 40: two whole blocks of 16.
    assert scheduler.schedule().tokens == [80, 48]


def test_prefix_caching_off_finds_nothing() -> None:
    scheduler = Scheduler(limits(max_num_batched_tokens=512, enable_prefix_caching=False))
    for _ in range(2):
        scheduler.add(64, 2, (7, 8), 32)
    assert scheduler.schedule().tokens == [64, 64]
    assert (scheduler.prefix_queries, scheduler.prefix_hits) == (0, 0)


def test_removed_request_gives_its_blocks_back() -> None:
    scheduler = Scheduler(limits())
    running, waiting = scheduler.add(60, 50), scheduler.add(500, 1)
    scheduler.schedule()
    scheduler.remove(running)
    scheduler.remove(waiting)
    assert scheduler.pool.num_free == scheduler.pool.num_usable
    assert drain(scheduler) == []


def check_blocks(scheduler: Scheduler) -> None:
    """Every block is free or held, never both, and held twice only where content is shared."""
    tables = [table for table in scheduler.block_table if table]
    held = {block for table in tables for block in table}
    for computed, table in zip(scheduler.computed, scheduler.block_table, strict=True):
        assert len(table) == -(-computed // SIZE)
        assert len(set(table)) == len(table)
    if not scheduler.limits.enable_prefix_caching:
        assert sum(map(len, tables)) == len(held)
    assert 0 not in held
    assert scheduler.pool.num_free + len(held) == scheduler.pool.num_usable
    assert scheduler.pool.count_idle(held) == 0


REQUESTS = st.lists(
    # (steps before it arrives, prompt, output, shared prefix or none)
    st.tuples(st.integers(0, 5), st.integers(1, 150), st.integers(1, 60), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


def prompt_ids(index: int, prompt: int, prefix: int) -> tuple[int, ...]:
    """Ids for each 24 tokens: up to 3 blocks shared by all of one prefix, then its own."""
    if prefix == 0:
        return ()
    blocks = -(-prompt // 24)
    return tuple(
        prefix * 100 + j if j < 3 and (j + 1) * 24 <= prompt else 10_000 + index * 100 + j
        for j in range(blocks)
    )


@pytest.mark.parametrize("caching", [True, False])
@settings(deadline=None)
@given(requests=REQUESTS, budget=st.integers(8, 80), seqs=st.integers(1, 6))
def test_promises_hold_at_every_step(
    caching: bool, requests: list[tuple[int, int, int, int]], budget: int, seqs: int
) -> None:
    scheduler = Scheduler(
        limits(
            max_num_batched_tokens=max(budget, seqs),
            max_num_seqs=seqs,
            num_blocks=16,
            enable_prefix_caching=caching,
        )
    )
    pending = list(enumerate(requests))
    first_scheduled: list[int] = []
    got: Counter[int] = Counter()
    step = 0
    while pending or scheduler.running or scheduler.waiting:
        while pending and pending[0][1][0] <= step:
            index, (_, prompt, output, prefix) = pending.pop(0)
            scheduler.add(prompt, output, prompt_ids(index, prompt, prefix), 24)
        batch = scheduler.schedule()
        assert batch.total_tokens == sum(batch.tokens) <= max(budget, seqs)
        assert all(count >= 1 for count in batch.tokens)
        assert len(scheduler.running) <= seqs
        check_blocks(scheduler)
        first_scheduled += [i for i in batch.requests if i not in first_scheduled]
        emitted, _ = scheduler.complete(batch)
        got.update(emitted)
        check_blocks(scheduler)
        step += 1
    assert first_scheduled == sorted(first_scheduled)
    assert [got[i] for i in range(len(requests))] == [output for _, _, output, _ in requests]
    assert scheduler.pool.num_free == scheduler.pool.num_usable
