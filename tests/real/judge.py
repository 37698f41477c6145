"""A second judge, written apart: it shares no code with the replay client or the measurements.

A plain open-loop client on raw streams, prompts of its own, and a share counted in a loop; so an
error in how Advisor measures would not be repeated here.
"""

import asyncio
import json
import random
import time
from itertools import pairwise

import aiohttp

from advisor.engine import Endpoint
from advisor.terms.profile import Profile, Request

#: Seconds of the profile that are played, and how many of the first do not count.
PLAYED_S, LEAD_IN_S = 100.0, 10.0


async def share_over(endpoint: Endpoint, profile: Profile, seed: int, limit_ms: float) -> float:
    """Share of the gaps between tokens that are over the limit, all requests pooled."""
    draw = random.Random(seed)
    first_s = 60.0 + 200.0 * seed
    rows = [r for r in profile.requests if 0 <= r.arrival_ns / 1e9 - first_s < PLAYED_S]
    system = [draw.randrange(100, 7000) for _ in range(512)]
    timeout = aiohttp.ClientTimeout(total=300)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        began = time.monotonic()
        streams = [
            asyncio.create_task(
                stream(session, endpoint, row, prompt(row, system, draw), began, first_s)
            )
            for row in rows
        ]
        answered = await asyncio.gather(*streams)
    counted = [
        gaps
        for row, gaps in zip(rows, answered, strict=True)
        if row.arrival_ns / 1e9 - first_s >= LEAD_IN_S
    ]
    pooled = [gap for gaps in counted for gap in gaps]
    assert len(pooled) > 5000
    return sum(1000 * gap > limit_ms for gap in pooled) / len(pooled)


def prompt(row: Request, system: list[int], draw: random.Random) -> list[int]:
    """Chats begin with the system prompt, documents share nothing."""
    shared = system if row.hash_ids and row.hash_ids[0] == 0 else []
    own = row.input_length - len(shared)
    return shared + [draw.randrange(100, 7000) for _ in range(own)]


async def stream(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    row: Request,
    tokens: list[int],
    began: float,
    first_s: float,
) -> list[float]:
    """Gaps in seconds between the events that carry tokens."""
    body = {
        "model": endpoint.served_model_name,
        "prompt": tokens,
        "max_tokens": row.output_length,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    }
    await asyncio.sleep(max(0.0, began + row.arrival_ns / 1e9 - first_s - time.monotonic()))
    moments: list[float] = []
    received = 0
    async with session.post(f"{endpoint.base_url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        async for line in response.content:
            now = time.monotonic()
            text = line.decode().removeprefix("data: ").strip()
            if not text or text == "[DONE]":
                continue
            ids = json.loads(text)["choices"][0].get("token_ids") or []
            if ids:
                moments.append(now)
                received += len(ids)
    assert received == row.output_length
    return [later - earlier for earlier, later in pairwise(moments)]
