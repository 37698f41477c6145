"""The scheduler in real time, sped up: counts only, no clock is trusted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest
import pytest_asyncio

from advisor.sim import hardware, resolve, simulate
from advisor.sim.steps import Batch
from advisor.standin.live import LiveEngine, prefix_ids
from advisor.terms.load import Load
from advisor.terms.profile import PlannedRequest
from advisor.terms.setting import Setting


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[LiveEngine]:
    config = resolve(
        Setting.of("llama-3.1-8b", {"max_model_len": 4096, "max_num_seqs": 4}),
        hardware("h100-sxm"),
    )
    live = LiveEngine(config, speed=500.0, seed=0)
    steps = asyncio.create_task(live.run())
    yield live
    steps.cancel()
    with suppress(asyncio.CancelledError):
        await steps
    assert live.is_dead


async def consume(engine: LiveEngine, prompt: list[int], output: int) -> list[int]:
    return [count async for count in engine.generate(prompt, output)]


async def test_concurrent_requests_get_exactly_their_tokens(engine: LiveEngine) -> None:
    asked = [(list(range(i, i + 40)), 5 + i) for i in range(1, 10)]
    counts = await asyncio.gather(*(consume(engine, p, o) for p, o in asked))
    assert [sum(each) for each in counts] == [output for _, output in asked]
    assert engine.generation_tokens == sum(output for _, output in asked)
    assert engine.prompt_tokens == 9 * 40
    assert engine.finished == 9
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_usable


async def test_a_late_consumer_finds_several_tokens_at_once(engine: LiveEngine) -> None:
    async with aclosing(engine.generate([1] * 10, 50)) as stream:
        first = await anext(stream)
        # Another that takes longer shows that this one has long been done.
        await consume(engine, [2] * 10, 100)
        assert engine.finished == 2
        rest = [count async for count in stream]
    assert len(rest) == 1
    assert first + rest[0] == 50


async def test_leaving_early_takes_the_request_out_and_others_go_on(engine: LiveEngine) -> None:
    other = asyncio.create_task(consume(engine, [2] * 10, 300))
    async with aclosing(engine.generate([1] * 10, 4000)) as stream:
        await anext(stream)
    assert sum(await other) == 300
    assert engine.finished == 1
    assert engine.scheduler.pool.num_free == engine.scheduler.pool.num_usable


async def test_equal_prompts_hit_the_prefix_cache(engine: LiveEngine) -> None:
    for _ in range(2):
        await consume(engine, [7] * 100, 2)
    assert engine.scheduler.prefix_hits == 96


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_steps_are_those_of_the_simulator_in_virtual_time(
    engine: LiveEngine, monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    live = LiveEngine(replace(engine.config, async_scheduling=asynchronous), 500.0, 0)
    chosen, most = list[tuple[int, int, int]](), 0
    schedule, complete = live.scheduler.schedule, live.scheduler.complete
    under_way = list[Batch]()

    def noting() -> Batch:
        nonlocal most
        batch = schedule()
        if batch.requests:
            chosen.append((batch.sequences, batch.total_tokens, batch.context_tokens))
            under_way.append(batch)
            most = max(most, len(under_way))
        return batch

    def ending(batch: Batch) -> tuple[list[int], list[int]]:
        assert batch is under_way.pop(0)
        return complete(batch)

    monkeypatch.setattr(live.scheduler, "schedule", noting)
    monkeypatch.setattr(live.scheduler, "complete", ending)
    asked = [(3000 + i, 5 + 3 * i) for i in range(7)]
    waiting = [asyncio.create_task(consume(live, [i] * p, o)) for i, (p, o) in enumerate(asked)]
    # All are there before its first step.
    async with asyncio.timeout(30):
        while len(live.scheduler.waiting) < len(asked):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
    steps = asyncio.create_task(live.run())
    await asyncio.gather(*waiting)
    steps.cancel()
    requests = [PlannedRequest(0, p, o, (), True) for p, o in asked]
    run = simulate(Load.of(requests, 16), live.config, window_start_ns=0, window_end_ns=1)
    t = run.timeline
    columns = (t.sequences, t.tokens, t.context_tokens)
    assert chosen == list(zip(*(each.tolist() for each in columns), strict=True))
    assert most == (2 if asynchronous else 1)


def test_prefix_ids_name_all_that_comes_before() -> None:
    one, other = prefix_ids([1] * 16 + [2] * 20, 16), prefix_ids([3] * 16 + [2] * 20, 16)
    assert len(one) == 3
    assert not set(one) & set(other)
    assert prefix_ids([1] * 16 + [5], 16)[0] == one[0]
