"""A second load generator and a second judge; they share no line with the code under test.

Whoever doubts a verdict can read this file alone: it replays rows of a profile at their times
against a server, and counts the gaps between tokens that are longer than a limit.
"""

import asyncio
import json
import math
import os
import random
import time
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import aiohttp

#: below the tiny model's vocabulary of 8,000, above its special tokens
LOWEST_TOKEN, HIGHEST_TOKEN = 10, 7_999
#: a server that does not answer at all must not stop the tests for ever
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Request:
    """One row of a profile, made ready to send."""

    at_s: float
    prompt: list[int]
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """When the pieces of one answer came, in seconds after the planned moment."""

    at_s: float
    moments_s: list[float]
    tokens: int

    @property
    def gaps_s(self) -> list[float]:
        return [after - before for before, after in pairwise(self.moments_s)]


def requests_of(
    profile: Path, start_s: float, end_s: float, load: float, salt: int
) -> list[Request]:
    """The rows from `start_s` up to `end_s` of the recording, `load` times as fast.

    Equal `hash_ids` become equal tokens under one salt, other ids other tokens.
    """
    block = tomllib.loads(profile.with_suffix(".toml").read_text())["block_tokens"]
    requests = []
    for line in profile.read_text().splitlines():
        row = json.loads(line)
        at_s = row["timestamp"] / 1000
        if start_s <= at_s < end_s:
            tokens = [t for id_ in row["hash_ids"] for t in _block(salt, id_, block)]
            prompt = tokens[: row["input_length"]]
            requests.append(Request((at_s - start_s) / load, prompt, row["output_length"]))
    return requests


def _block(salt: int, id_: int, tokens: int) -> list[int]:
    rng = random.Random(f"{salt}/{id_}")
    return [rng.randint(LOWEST_TOKEN, HIGHEST_TOKEN) for _ in range(tokens)]


async def play(base_url: str, model: str, requests: list[Request]) -> list[Answer]:
    """Send every request at its moment, whatever became of the others before it."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    # a connection for each: the server closes idle ones after 5 s, maybe just as one is used again
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        url = f"{base_url}/v1/completions"
        start = time.perf_counter() + 0.1
        go_first(True)
        try:
            work = (_ask(session, url, model, start, request) for request in requests)
            return list(await asyncio.gather(*work))
        finally:
            go_first(False)


def go_first(wanted: bool) -> None:
    """A server that keeps two cores busy leaves an ordinary thread waiting for tenths of a second,
    and a whole answer then seems to come at once."""
    policy = os.SCHED_RR if wanted else os.SCHED_OTHER
    try:
        os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_param(int(wanted)))
    except PermissionError:
        return  # the caller sees it by the gaps


async def _ask(
    session: aiohttp.ClientSession, url: str, model: str, start: float, request: Request
) -> Answer:
    body = {
        "model": model,
        "prompt": request.prompt,
        "max_tokens": request.output_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    planned = start + request.at_s
    await asyncio.sleep(planned - time.perf_counter())
    moments, tokens = [], 0
    async with session.post(url, json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            now = time.perf_counter()
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise AssertionError(chunk)
            if chunk["choices"]:
                moments.append(now - planned)
            if chunk.get("usage"):
                tokens = chunk["usage"]["completion_tokens"]
    return Answer(request.at_s, moments, tokens)


def share_over(samples: list[float], limit: float) -> float:
    """0..1"""
    return sum(sample > limit for sample in samples) / len(samples)


def percentile(samples: list[float], percent: float) -> float:
    """The least sample with at most (100 - percent) % of all above it."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
