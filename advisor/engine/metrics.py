"""What a server counts about itself: `/metrics` as ServerFacts.

Names change between releases (vLLM renamed gpu_cache_usage_perc to kv_cache_usage_perc), so each
fact has the names it went by. A fact that a server does not export is None, never 0.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from advisor.engine.device import Devices, NoDevices, Reading
from advisor.terms.errors import EngineError
from advisor.terms.job import ServerFacts

#: fact -> sample names, the newest first (vLLM 0.33.0 `vllm/v1/metrics/loggers.py`, and 0.8)
_GAUGES = {
    "running_max": ("vllm:num_requests_running",),
    "waiting_max": ("vllm:num_requests_waiting",),
    "kv_cache_usage_max": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
_COUNTERS = {
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prefix_cache_queries": (
        "vllm:prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries_total",
    ),
    "prefix_cache_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
    "ttft_s_sum": ("vllm:time_to_first_token_seconds_sum",),
    "ttft_count": ("vllm:time_to_first_token_seconds_count",),
    "itl_s_sum": (
        "vllm:inter_token_latency_seconds_sum",
        "vllm:time_per_output_token_seconds_sum",
    ),
    "itl_count": (
        "vllm:inter_token_latency_seconds_count",
        "vllm:time_per_output_token_seconds_count",
    ),
    "queue_time_s": ("vllm:request_queue_time_seconds_sum",),
}
#: read from the devices, not from `/metrics`: how successive readings become one
_DEVICE: dict[str, Callable[[Sequence[float]], float]] = {
    "device_use": lambda values: sum(values) / len(values),
    "device_memory_max_bytes": max,
    "device_power_max_w": max,
    "device_clock_min_mhz": min,
}
_NAMES = tuple(alias for aliases in (_GAUGES | _COUNTERS).values() for alias in aliases)
#: a share, not a count: over several engines the fullest one matters
_SHARES = frozenset({"kv_cache_usage_max"})

Samples = dict[str, list[tuple[dict[str, str], float]]]


def parse(text: str) -> Samples:
    """Prometheus text -> sample name -> [(labels, value)]. Raises EngineError."""
    samples: Samples = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    except (ValueError, KeyError, IndexError) as exc:
        raise EngineError(f"/metrics is not Prometheus text: {exc}") from exc
    return samples


def facts(samples: Samples) -> ServerFacts:
    """One reading: counters since the server's start, gauges as they are."""
    read: dict[str, Any] = {}
    for name, aliases in (_GAUGES | _COUNTERS).items():
        values = next((samples[alias] for alias in aliases if alias in samples), [])
        numbers = [value for _, value in values if not math.isnan(value)]
        combine: Callable[[Iterable[float]], float] = max if name in _SHARES else sum
        read[name] = combine(numbers) if numbers else None
    return ServerFacts(**read)


def change(readings: Sequence[ServerFacts]) -> ServerFacts:
    """Over successive readings, at least one: counters last minus first, gauges their maxima.

    A counter that one of the two lacks, or that fell (another process answered), is None.
    """
    read: dict[str, Any] = {}
    for name in _COUNTERS:
        first, last = getattr(readings[0], name), getattr(readings[-1], name)
        grew = first is not None and last is not None and last >= first
        read[name] = last - first if grew else None
    for name, combine in (dict.fromkeys(_GAUGES, max) | _DEVICE).items():
        known = [value for each in readings if (value := getattr(each, name)) is not None]
        read[name] = combine(known) if known else None
    slowed = [each.throttled for each in readings if each.throttled is not None]
    names = dict.fromkeys(name for each in slowed for name in each)
    return ServerFacts(**read, throttled=tuple(names) if slowed else None)


def with_devices(facts: ServerFacts, reading: Reading) -> ServerFacts:
    """A reading of the server with one of its devices."""
    return replace(
        facts,
        device_use=reading.utilization,
        device_memory_max_bytes=reading.memory_used_bytes,
        device_power_max_w=reading.power_w,
        device_clock_min_mhz=reading.sm_clock_mhz,
        throttled=reading.throttled,
    )


def of_facts(text: str) -> str:
    """The lines that `facts` reads.

    The parser takes 9 ms for the 600 lines of a vLLM: on the loop that stamps tokens, such a
    stall every second would move one gap in a hundred, just where a p99 looks.
    """
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith(_NAMES))


async def fetch(
    session: aiohttp.ClientSession, base_url: str, select: Callable[[str], str] = str
) -> Samples:
    """Read `/metrics` now, or what `select` keeps of it. Raises EngineError without an answer."""
    try:
        async with session.get(f"{base_url}/metrics") as response:
            response.raise_for_status()
            return parse(select(await response.text(errors="replace")))
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise EngineError(f"{base_url}/metrics: {exc or type(exc).__name__}") from exc


class FactsWatch:
    """Reads `/metrics` and the devices now and then, so that gauges have maxima.

    Use with `async with`.
    """

    def __init__(
        self,
        base_url: str,
        devices: Devices | None = None,
        period_s: float = 1.0,
        timeout_s: float = 10.0,
    ) -> None:
        self._base_url = base_url
        self._devices = devices or NoDevices()
        self._period_s = period_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._readings: list[ServerFacts] = []
        #: readings that a busy server did not answer in time
        self.missed = 0

    async def __aenter__(self) -> "FactsWatch":
        self._session = aiohttp.ClientSession(timeout=self._timeout, trust_env=False)
        self._task = asyncio.create_task(self._sample())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._session.close()

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        """A reading now, or the change since one that this watch returned.

        What a server does not tell, or not in time, is missing; whether it still lives is not
        asked here. Raises ValueError for a foreign `since`.
        """
        now = await self._read()
        if since is None:
            return now
        start = next((i for i, one in enumerate(self._readings) if one is since), None)
        if start is None:
            raise ValueError("`since` is not a reading of this watch")
        return change(self._readings[start:])

    async def _read(self) -> ServerFacts:
        try:
            counted = facts(await fetch(self._session, self._base_url, of_facts))
        except EngineError:
            self.missed += 1
            counted = ServerFacts()
        # a driver may take milliseconds to answer: not on the loop that stamps tokens
        reading = with_devices(counted, await asyncio.to_thread(self._devices.read))
        self._readings.append(reading)
        return reading

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            await self._read()
