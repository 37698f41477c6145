"""The scheduler in real time, sped up: counts only, no clock is trusted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

import pytest_asyncio

from advisor.sim import hardware, resolve
from advisor.standin.live import LiveEngine, prefix_ids
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


def test_prefix_ids_name_all_that_comes_before() -> None:
    one, other = prefix_ids([1] * 16 + [2] * 20, 16), prefix_ids([3] * 16 + [2] * 20, 16)
    assert len(one) == 3
    assert not set(one) & set(other)
    assert prefix_ids([1] * 16 + [5], 16)[0] == one[0]
