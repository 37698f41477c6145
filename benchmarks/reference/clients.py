"""Other ways to write the client, for comparison: each as its users write it, at its best."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter_ns

import aiohttp
import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.reference.server import Load, reference_server

#: Stamps of the token events of one stream; bytes still to be parsed are not returned.
_Stream = Callable[[str, dict[str, object]], Awaitable[list[int]]]


@dataclass(frozen=True, slots=True)
class Timed:
    #: CPU of the client for one event, all told
    cpu_us_per_event: float
    itl_p99_bias_pct: float


async def over_httpx(load: Load) -> Timed:
    """`aiter_lines` and `json.loads` on the event loop."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as client:

        async def stream(url: str, body: dict[str, object]) -> list[int]:
            stamps = []
            async with client.stream("POST", url, json=body) as response:
                async for line in response.aiter_lines():
                    now_ns = perf_counter_ns()
                    if line.startswith("data: {") and json.loads(line[6:])["choices"]:
                        stamps.append(now_ns)
            return stamps

        return await _timed(load, stream)


async def over_aiohttp(load: Load) -> Timed:
    """Stamped at the read, kept, parsed after the stream."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**22) as session:

        async def stream(url: str, body: dict[str, object]) -> list[int]:
            reads = []
            async with session.post(url, json=body) as response:
                async for read in response.content.iter_any():
                    reads.append((perf_counter_ns(), read))
            stamps = []
            for stamp_ns, read in reads:
                for line in read.split(b"\n"):
                    if line.startswith(b"data: {") and json.loads(line[6:])["choices"]:
                        stamps.append(stamp_ns)
            return stamps

        return await _timed(load, stream)


async def _timed(load: Load, stream: _Stream) -> Timed:
    async def one(number: int) -> list[int]:
        await asyncio.sleep(number / load.streams)
        body: dict[str, object] = {
            "model": "none",
            "prompt": [7] * (number + 1),
            "max_tokens": load.tokens,
            "stream": True,
        }
        return await stream(f"{server.url}/v1/completions", body)

    with reference_server(load) as server:
        before_s = time.process_time()
        seen = await asyncio.gather(*map(one, range(load.streams)))
        cpu_s = time.process_time() - before_s
        written = [answer.written_ns for answer in server.answers()]
    events = sum(map(len, seen))
    assert events == load.streams * load.tokens
    bias = itl_p99_bias_pct(written, [np.array(stamps) for stamps in seen])
    return Timed(cpu_s / events * 1e6, bias)


def itl_p99_bias_pct(
    written_ns: list[NDArray[np.int64]], seen_ns: list[NDArray[np.int64]]
) -> float:
    """How far the p99 of all gaps lies from the server's own, in per cent."""
    true, seen = (
        float(np.percentile(np.concatenate([np.diff(s) for s in stamps]), 99))
        for stamps in (written_ns, seen_ns)
    )
    return 100 * (seen / true - 1)
