"""Requests played against a real server by Advisor's own load generator."""

import time
from collections.abc import Sequence

import aiohttp

from advisor.engine import Endpoint
from advisor.replay.client import replay
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus, Traces


async def play(
    server: Endpoint, requests: Sequence[PlannedRequest], block_tokens: int, window_ns: int
) -> Traces:
    """To their end, which all must reach; the window begins with the first one's clock."""
    traces = await replay(
        requests,
        server.base_url,
        server.served_model_name,
        block_tokens=block_tokens,
        vocab_size=8_000,
        window_start_ns=0,
        window_end_ns=window_ns,
        request_timeout_s=240,
        stall_timeout_s=120,
        alive=lambda: server.failure() is None,
    )
    assert (traces.status == RequestStatus.OK).all(), traces.status
    return traces


async def prefill_s(server: Endpoint, tokens: int) -> float:
    """What a prompt of so many tokens takes alone. Of twenty the least disturbed one: a neighbour
    on the machine doubles some of them."""
    body = {"model": server.served_model_name, "max_tokens": 1}
    url = f"{server.base_url}/v1/completions"
    times = []
    async with aiohttp.ClientSession() as session:
        for number in range(20):
            prompt = [100 + number, *range(200, 199 + tokens)]
            began = time.perf_counter()
            async with session.post(url, json={**body, "prompt": prompt}) as response:
                response.raise_for_status()
                await response.read()
            times.append(time.perf_counter() - began)
    return min(times)
