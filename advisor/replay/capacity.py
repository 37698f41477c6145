"""How many events a second the load generator carries on this machine, by trying."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np

from advisor.replay.client import replay
from advisor.terms.errors import ReplayError, ReplayInterrupted
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import ClientAudit, RequestStatus, Traces

#: Rates tried, in events/s; a client that fails at one is not asked for more.
RATES = (1_000, 2_000, 5_000, 10_000, 20_000, 40_000)
_PACE_NS = 20_000_000
#: Of each stream: a second's worth.
_TOKENS = 50
#: A p99 of ITL this far from the server's own is not worth stating.
MOST_BIAS = 0.05
#: As in `audit.FLOOR_MS`: later than this is late against any limit.
_LATEST_SEND_MS = 10.0
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Carried:
    """One rate tried."""

    events_per_s: int
    #: p99 ITL as seen over p99 ITL as written, minus 1
    itl_p99_bias: float
    audit: ClientAudit

    @property
    def is_true(self) -> bool:
        """Whether what was seen may be stated."""
        return abs(self.itl_p99_bias) <= MOST_BIAS and (
            self.audit.send_late_p99_ms <= _LATEST_SEND_MS
        )


async def measure_capacity(up_to_per_s: float = RATES[-1]) -> list[Carried]:
    """Try rising rates until one is no longer seen truly or `up_to_per_s` is reached.

    About two seconds a rate. A server in Python shares the machine: what is carried beside it
    is carried beside a real one. Raises ReplayError when that server cannot be used.
    """
    tried: list[Carried] = []
    for rate in RATES:
        tried.append(await _try(rate))
        if not tried[-1].is_true or rate >= up_to_per_s:
            break
    return tried


def carried_per_s(tried: Sequence[Carried]) -> int:
    """The highest rate that was seen truly, 0 when none was."""
    return max((one.events_per_s for one in tried if one.is_true), default=0)


async def _try(rate: int) -> Carried:
    try:
        return await _tried(rate)
    except (TimeoutError, ReplayInterrupted) as exc:
        raise ReplayError(
            f"the reference server did not answer {rate:,} events/s within {_PATIENCE_S:g} s"
        ) from exc


async def _tried(rate: int) -> Carried:
    streams = max(1, rate * _PACE_NS // 1_000_000_000)
    plan = [
        PlannedRequest(i * 500_000_000 // streams, i + 1, _TOKENS, (i,), counted=True)
        for i in range(streams)
    ]
    async with _reference(streams) as server:
        traces = await replay(
            plan,
            server.url,
            "none",
            block_tokens=streams,
            vocab_size=32_000,
            window_start_ns=0,
            window_end_ns=500_000_000,
            request_timeout_s=_PATIENCE_S,
            stall_timeout_s=_PATIENCE_S,
            alive=lambda: True,  # it ends with its last answer
        )
        written = await server.written()
    if traces.audit is None or (traces.status != RequestStatus.OK).any():
        raise ReplayError("the reference server did not answer every request")
    return Carried(rate, _itl_p99(_seen(traces)) / _itl_p99(written) - 1, traces.audit)


def _seen(traces: Traces) -> list[list[int]]:
    return [part.tolist() for part in np.split(traces.event_ns, traces.event_offsets[1:-1])]


def _itl_p99(stamps: list[list[int]]) -> float:
    return float(np.percentile(np.concatenate([np.diff(one) for one in stamps]), 99))


@dataclass(frozen=True, slots=True)
class _Reference:
    process: asyncio.subprocess.Process
    url: str

    async def written(self) -> list[list[int]]:
        """Once all are answered."""
        said, _ = await asyncio.wait_for(self.process.communicate(), _PATIENCE_S)
        stamps: dict[str, list[int]] = json.loads(said)
        return list(stamps.values())


@asynccontextmanager
async def _reference(streams: int) -> AsyncIterator[_Reference]:
    module = "advisor.replay.reference"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(streams), str(_PACE_NS), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = (await asyncio.wait_for(process.stdout.readline(), _PATIENCE_S)).decode().strip()
        if not port:
            raise ReplayError("the reference server did not start")
        yield _Reference(process, f"http://127.0.0.1:{port}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
