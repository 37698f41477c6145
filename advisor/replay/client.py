"""The open-loop client: every request leaves at its planned moment, whatever the server does."""

import asyncio
import io
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from urllib.parse import urlsplit

import aiohttp

from advisor.replay.body import encode_bodies
from advisor.replay.collect import Counted, Load, Record, build_traces, check_counted, read_streams
from advisor.replay.failures import status_of
from advisor.replay.pacing import collector_paused, precedence, record_lag, sleep_until
from advisor.replay.prompts import DEFAULT_FLOOR
from advisor.replay.watch import Watch
from advisor.terms.errors import InputError, ReplayError, ReplayInterrupted
from advisor.terms.outcome import Failure
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus, Traces

_log = logging.getLogger(__name__)

#: From the last preparation to time zero, so that a request planned for 0 is not late already.
_HEAD_START_NS = 50_000_000
#: aiohttp's default of 64 KiB throttles the socket of a long response.
_READ_BUFFER_BYTES = 4 * 1024 * 1024
#: Below uvicorn's 5 s, so that a pooled connection is dropped here before the server closes it.
_KEEP_ALIVE_S = 4.0
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_ERROR_BODY_BYTES = 2000


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
    watch = Watch(len(requests), stall_timeout_s, alive, on_progress)
    encoder = partial(encode_bodies, block_tokens=block_tokens, vocab_size=vocab_size, floor=floor)
    client = _Client(
        requests,
        await asyncio.to_thread(encoder, requests, model),
        _completions_url(endpoint_url),
        Counted(window_start_ns, window_end_ns),
        request_timeout_s,
        watch,
    )
    failure = await client.play()
    load = client.load()
    streams = await asyncio.to_thread(read_streams, load)
    _log_failures(load.records)
    if failure is not None:
        raise ReplayInterrupted(failure, build_traces(load, streams))
    check_counted(streams)
    return build_traces(load, streams)


def _completions_url(endpoint_url: str) -> str:
    parts = urlsplit(endpoint_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"endpoint {endpoint_url!r}: expected http://HOST:PORT")
    return endpoint_url.rstrip("/") + "/v1/completions"


def _check_order(requests: Sequence[PlannedRequest]) -> None:
    if not requests:
        raise ReplayError("the plan holds no request")
    if any(a.at_ns > b.at_ns for a, b in pairwise(requests)):
        raise ReplayError("the planned requests are not in the order of their moments")


def _log_failures(records: Sequence[Record]) -> None:
    """One line per class of failure, with what the first of them said."""
    first: dict[RequestStatus, str] = {}
    count: dict[RequestStatus, int] = {}
    for record in records:
        if record.detail:
            first.setdefault(record.status, record.detail)
            count[record.status] = count.get(record.status, 0) + 1
    for status, detail in first.items():
        _log.warning("%d requests ended as %s: %s", count[status], status.name, detail)


class _Client:
    """One replay in flight."""

    def __init__(
        self,
        requests: Sequence[PlannedRequest],
        bodies: list[bytes],
        url: str,
        window: Counted,
        request_timeout_s: float,
        watch: Watch,
    ) -> None:
        self._requests = requests
        self._bodies = bodies
        self._url = url
        self._window = window
        self._request_timeout_s = request_timeout_s
        self._watch = watch
        self._records = [Record() for _ in requests]
        self._lags_ns: list[int] = []
        self._zero_ns = 0
        self._stopped_ns = 0
        self._cpu_s = 0.0

    async def play(self) -> Failure | None:
        """Send everything and wait for it; the failure that ended it early, or None."""
        with collector_paused(), precedence():
            async with _session() as session:
                self._zero_ns = perf_counter_ns() + _HEAD_START_NS
                cpu_before_s = time.process_time()
                try:
                    return await self._first_to_end(session)
                finally:
                    self._stopped_ns = perf_counter_ns()
                    self._cpu_s = time.process_time() - cpu_before_s

    def load(self) -> Load:
        """What was played, once `play` has returned."""
        began_ns = self._zero_ns - _HEAD_START_NS
        return Load(
            requests=self._requests,
            records=self._records,
            zero_ns=self._zero_ns,
            stopped_ns=self._stopped_ns,
            window=self._window,
            lags_ns=self._lags_ns,
            cpu_share=self._cpu_s * 1e9 / (self._stopped_ns - began_ns),
        )

    async def _first_to_end(self, session: aiohttp.ClientSession) -> Failure | None:
        beats_from_ns = self._zero_ns + self._window.start_ns
        beat = asyncio.create_task(record_lag(self._lags_ns, beats_from_ns))
        watch = asyncio.create_task(self._watch.until_failure())
        work = asyncio.create_task(self._send_all(session))
        try:
            await asyncio.wait((work, watch, beat), return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                return watch.result()
            if beat.done():
                beat.result()
            work.result()
            return self._watch.finish()
        finally:
            await _cancel(work, watch, beat)

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for index, request in enumerate(self._requests):
                    await sleep_until(self._zero_ns + request.at_ns)
                    group.create_task(self._send(session, index))
        except ExceptionGroup as broken:
            # the group ends at its first error; that one is the cause
            raise broken.exceptions[0] from None

    async def _send(self, session: aiohttp.ClientSession, index: int) -> None:
        record, body = self._records[index], self._bodies[index]
        self._bodies[index] = b""
        record.sent_ns = perf_counter_ns()
        self._watch.opened(record.sent_ns)
        try:
            async with asyncio.timeout(self._request_timeout_s):
                record.status = await self._exchange(session, body, record)
        except TimeoutError:
            record.end_ns = perf_counter_ns()
            record.status = RequestStatus.TIMEOUT
            record.detail = f"not done after {self._request_timeout_s:g} s"
        except (aiohttp.ClientError, OSError) as exc:
            record.end_ns = perf_counter_ns()
            record.status = status_of(exc)
            record.detail = str(exc) or type(exc).__name__
        finally:
            self._watch.closed()

    async def _exchange(
        self, session: aiohttp.ClientSession, body: bytes, record: Record
    ) -> RequestStatus:
        # a file object: aiohttp warns of raw bytes above 1 MiB and writes them in one piece
        async with session.post(
            self._url, data=io.BytesIO(body), headers=_HEADERS, allow_redirects=False
        ) as response:
            if response.status != 200:
                said = await response.content.read(_ERROR_BODY_BYTES)
                record.end_ns = perf_counter_ns()
                record.detail = f"HTTP {response.status}: {said.decode(errors='replace')}"
                return RequestStatus.HTTP
            async for read in response.content.iter_any():
                stamp_ns = perf_counter_ns()
                record.reads.append((stamp_ns, read))
                self._watch.saw(stamp_ns, read)
        record.end_ns = record.reads[-1][0] if record.reads else perf_counter_ns()
        return RequestStatus.OK


def _session() -> aiohttp.ClientSession:
    """No limits, no proxies, no cookies, no timeouts and no decoding but our own.

    POST is never retried by aiohttp (only idempotent methods are), so a pooled connection that
    the server closed under us counts as a reset. The lead-in opens the pool.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=None, keepalive_timeout=_KEEP_ALIVE_S
        ),
        timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER_BYTES,
        auto_decompress=False,
        trust_env=False,
    )


async def _cancel(*tasks: asyncio.Task[None] | asyncio.Task[Failure]) -> None:
    """End the tasks; the one whose outcome matters has been looked at already."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
