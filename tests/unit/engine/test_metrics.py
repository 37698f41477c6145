import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from advisor.engine import FactsWatch
from advisor.engine.device import Reading
from advisor.engine.metrics import change, facts, of_facts, parse, with_devices
from advisor.terms.errors import EngineError
from advisor.terms.job import ServerFacts

NEW = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_running{engine="1"} 4.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.75
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0"} 10.0
vllm:prefix_cache_hits_created{engine="0"} 1.796e+09
"""
OLD = NEW.replace("vllm:kv_", "vllm:gpu_").replace("vllm:prefix", "vllm:gpu_prefix")


@pytest.mark.parametrize("text", [NEW, OLD])
def test_old_and_new_names(text: str) -> None:
    read = facts(parse(text))
    assert read.running_max == 7.0
    assert read.kv_cache_usage_max == 0.75
    assert read.prefix_cache_hits == 10.0


@pytest.mark.parametrize("text", [NEW, OLD])
def test_the_other_lines_are_not_needed(text: str) -> None:
    histogram = 'vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01"} 7.0\n'
    kept = of_facts(histogram + text + histogram)
    assert "bucket" not in kept
    assert facts(parse(kept)) == facts(parse(text))


def test_missing_is_missing() -> None:
    assert facts(parse("")) == ServerFacts()
    assert facts(parse("vllm:num_requests_running NaN\n")) == ServerFacts()


def test_text_that_is_no_metrics_page() -> None:
    with pytest.raises(EngineError, match="not Prometheus"):
        parse("<html>{}</html>\n")


def test_counters_are_differences_and_gauges_maxima() -> None:
    readings = [
        ServerFacts(running_max=1, waiting_max=None, preemptions=5, prompt_tokens=9),
        ServerFacts(running_max=8, waiting_max=2, preemptions=None, prompt_tokens=12),
        ServerFacts(running_max=0, waiting_max=0, preemptions=7, prompt_tokens=3),
    ]
    assert change(readings) == ServerFacts(running_max=8, waiting_max=2, preemptions=2)


def test_devices_are_read_as_mean_use_extremes_and_every_reason_to_be_slow() -> None:
    none = with_devices(ServerFacts(), Reading())
    readings = [
        with_devices(ServerFacts(queue_time_s=1.0), Reading(5, 300.0, 0.5, 1900.0, ("brake",))),
        with_devices(ServerFacts(queue_time_s=1.5), Reading(9, 700.0, 1.0, 1200.0, ("heat",))),
        with_devices(ServerFacts(queue_time_s=4.0), Reading(7, 500.0, None, 1500.0, ())),
    ]
    over = change(readings)
    assert over == ServerFacts(
        queue_time_s=3.0,
        device_use=0.75,
        device_memory_max_bytes=9,
        device_power_max_w=700.0,
        device_clock_min_mhz=1200.0,
        throttled=("brake", "heat"),
    )
    assert change([none, none]) == ServerFacts(), "missing is missing"
    assert change([readings[2]]).throttled == ()


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_a_change_is_never_negative(values: list[float]) -> None:
    total = change([ServerFacts(generation_tokens=value) for value in values])
    assert total.generation_tokens is None or total.generation_tokens >= 0


async def test_a_watch_sees_the_peak_between_two_readings() -> None:
    running = iter([1, 9, 2, *[2] * 1000])
    seen: list[int] = []

    async def page(request: web.Request) -> web.Response:
        seen.append(value := next(running))
        if value == 1000:
            raise web.HTTPServiceUnavailable
        return web.Response(text=f"vllm:num_requests_running {value}\n")

    app = web.Application()
    app.router.add_get("/metrics", page)
    async with (
        TestServer(app) as server,
        FactsWatch(str(server.make_url("")).rstrip("/"), period_s=0.01) as watch,
    ):
        start = await watch.facts()
        assert start.running_max == 1
        while len(seen) < 3:
            await _turn()
        over = await watch.facts(start)
        assert over.running_max == 9
        assert over.preemptions is None
        with pytest.raises(ValueError, match="not a reading"):
            await watch.facts(ServerFacts())


async def test_a_busy_server_costs_readings_not_the_watch() -> None:
    async with FactsWatch("http://127.0.0.1:9", period_s=0.01) as watch:
        while watch.missed < 2:
            await _turn()
        before = await watch.facts()
        assert before == ServerFacts()
        assert await watch.facts(before) == ServerFacts(), "missing is missing"


async def _turn() -> None:
    await asyncio.sleep(0.005)
