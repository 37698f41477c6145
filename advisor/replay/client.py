"""The open-loop client: every request leaves at its planned moment, whatever the server does."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter_ns

from advisor.replay.address import Address, resolve
from advisor.replay.body import encode_bodies
from advisor.replay.clock import wall_offset_ns
from advisor.replay.collect import Counted, Load, build_traces, check_counted, read_answers
from advisor.replay.http1 import encode_request
from advisor.replay.pacing import collector_paused, precedence, quick_switches
from advisor.replay.prompts import DEFAULT_FLOOR
from advisor.replay.watch import Watch
from advisor.replay.wire import HEAD_START_NS, Wire
from advisor.terms.errors import ReplayError, ReplayInterrupted
from advisor.terms.outcome import Failure
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus, Traces

_log = logging.getLogger(__name__)
_PATH = "/v1/completions"


async def replay(
    requests: Sequence[PlannedRequest],
    endpoint_url: str,
    model: str,
    *,
    block_tokens: int,
    vocab_size: int,
    window_start_ns: int,
    window_end_ns: int,
    request_timeout_s: float,
    stall_timeout_s: float,
    alive: Callable[[], bool],
    on_progress: Callable[[float], None] | None = None,
    floor: int = DEFAULT_FLOOR,
) -> Traces:
    """Play `requests` (ascending in `at_ns`) against `endpoint_url` to the end of the last one.

    A request that fails is a row of the Traces, never retried. Raises ReplayInterrupted (a
    LaunchFailed that carries the Traces so far) when `alive()` turns false, with reason
    crashed_under_load, or when requests are open and no stream has brought a token for
    `stall_timeout_s`, with reason hung. Raises ReplayError when the client itself broke or the
    server does not count its tokens, InputError for an address or a vocabulary of no use.
    `on_progress` gets the share of requests that have ended, 0..1.
    """
    _check_order(requests)

    def prepare() -> tuple[Address, list[bytes]]:
        address = resolve(endpoint_url)
        bodies = encode_bodies(
            requests, model, block_tokens=block_tokens, vocab_size=vocab_size, floor=floor
        )
        path = address.prefix + _PATH
        return address, [encode_request(address.host, path, body) for body in bodies]

    address, messages = await asyncio.to_thread(prepare)
    watch = Watch(len(requests), stall_timeout_s, alive, on_progress)
    wire = Wire(
        address,
        [request.at_ns for request in requests],
        messages,
        request_timeout_s=request_timeout_s,
        beats_from_ns=window_start_ns,
        watch=watch,
    )
    load, failure = await _play(wire, watch, requests, Counted(window_start_ns, window_end_ns))
    answers = await asyncio.to_thread(read_answers, load)
    _log_failures(answers.statuses, answers.details)
    if failure is not None:
        raise ReplayInterrupted(failure, build_traces(load, answers))
    check_counted(answers.streams)
    return build_traces(load, answers)


async def _play(
    wire: Wire, watch: Watch, requests: Sequence[PlannedRequest], window: Counted
) -> tuple[Load, Failure | None]:
    """The load, and what ended it early if anything did."""
    with collector_paused(), quick_switches(), precedence():
        offset_ns, cpu_before_s = wall_offset_ns(), time.process_time()
        try:
            failure = await _until_end(wire, watch)
        finally:
            wire.close()
        stopped_ns = perf_counter_ns()
        load = Load(
            requests=requests,
            records=wire.records,
            zero_ns=wire.zero_ns,
            stopped_ns=stopped_ns,
            window=window,
            lags_ns=wire.lags_ns,
            cpu_share=_share(time.process_time() - cpu_before_s, stopped_ns - wire.zero_ns),
            wall_offsets_ns=(offset_ns, wall_offset_ns()),
        )
    return load, failure


def _share(cpu_s: float, since_zero_ns: int) -> float:
    return cpu_s * 1e9 / (since_zero_ns + HEAD_START_NS)


async def _until_end(wire: Wire, watch: Watch) -> Failure | None:
    with ThreadPoolExecutor(1, "replay") as threads:
        work = asyncio.get_running_loop().run_in_executor(threads, wire.run)
        looking = asyncio.create_task(watch.until_failure())
        try:
            await asyncio.wait((work, looking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            wire.stop()
            looking.cancel()
            await asyncio.wait((work, looking))
    # whatever broke here says more than what was seen of the server
    await work
    return watch.finish() if looking.cancelled() else looking.result()


def _check_order(requests: Sequence[PlannedRequest]) -> None:
    if not requests:
        raise ReplayError("the plan holds no request")
    if any(a.at_ns > b.at_ns for a, b in pairwise(requests)):
        raise ReplayError("the planned requests are not in the order of their moments")


def _log_failures(statuses: Sequence[RequestStatus], details: Sequence[str]) -> None:
    """One line per class of failure, with what the first of them said."""
    first: dict[RequestStatus, str] = {}
    count: dict[RequestStatus, int] = {}
    for status, detail in zip(statuses, details, strict=True):
        if detail:
            first.setdefault(status, detail)
            count[status] = count.get(status, 0) + 1
    for status, detail in first.items():
        _log.warning("%d requests ended as %s: %s", count[status], status.name, detail)
