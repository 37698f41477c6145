"""The open-loop client: every request leaves at its planned moment, whatever the server does."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

from advisor.replay.address import Address, resolve
from advisor.replay.body import encode_bodies, encode_chats, encode_probes
from advisor.replay.clock import wall_offset_ns
from advisor.replay.collect import Counted, Load, build_traces, check_counted, read_answers
from advisor.replay.http1 import encode_request
from advisor.replay.pacing import (
    collector_paused,
    precedence,
    precedence_of_the_loop,
    quick_switches,
)
from advisor.replay.prompts import DEFAULT_FLOOR
from advisor.replay.record import Record
from advisor.replay.text import TextScale, fit_scale
from advisor.replay.turns import turns_of
from advisor.replay.watch import Watch
from advisor.replay.wire import HEAD_START_NS, Wire
from advisor.terms.errors import ReplayError, ReplayInterrupted
from advisor.terms.job import Api
from advisor.terms.outcome import Failure
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import Look, RequestStatus, Traces

_log = logging.getLogger(__name__)
#: Any prompt that no plan has: block ids are hashes of 63 bits.
_PROBE_SEED = -1


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
    api: Api = Api.COMPLETIONS,
    look: Look | None = None,
) -> Traces:
    """Play `requests` (ascending in `at_ns`) against `endpoint_url` to the end of the last one.

    A `look` is taken in a thread of its own while requests are open; once it finds that what has
    happened is enough, those are given up (STOPPED).
    A request that fails is a row of the Traces, never retried. Raises ReplayInterrupted (a
    LaunchFailed that carries the Traces so far) when `alive()` turns false, with reason
    crashed_under_load, or when requests are open and no stream has brought a token for
    `stall_timeout_s`, with reason hung. Raises ReplayError when the client itself broke or the
    server does not count its tokens, InputError for an address or a vocabulary of no use.
    `on_progress` gets the share of requests that have ended, 0..1. Over the chat API prompts are
    text: their lengths are near the plan's, not equal, and two short prompts go ahead of the load.
    """
    _check_order(requests)
    address = await asyncio.to_thread(resolve, endpoint_url)
    sender = _Sender(address, api, request_timeout_s, stall_timeout_s, alive)
    if api is Api.CHAT:
        scale = await sender.text_scale(model)
        encode = partial(encode_chats, block_tokens=block_tokens, scale=scale)
    else:
        encode = partial(
            encode_bodies, block_tokens=block_tokens, vocab_size=vocab_size, floor=floor
        )
    messages = sender.messages(await asyncio.to_thread(encode, requests, model))
    watch = Watch(len(requests), stall_timeout_s, alive, on_progress)
    wire = sender.wire(requests, messages, watch, window_start_ns)
    window = Counted(window_start_ns, window_end_ns)
    play = _Play(wire, watch, requests, window, api is Api.CHAT)
    load, failure = await play.to_the_end(look)
    answers = await asyncio.to_thread(read_answers, load)
    _log_failures(answers.statuses, answers.details)
    if failure is not None:
        raise ReplayInterrupted(failure, build_traces(load, answers))
    check_counted(answers.streams)
    return build_traces(load, answers)


@dataclass(frozen=True, slots=True)
class _Sender:
    """What all requests of a replay have in common."""

    address: Address
    api: Api
    request_timeout_s: float
    stall_timeout_s: float
    alive: Callable[[], bool]

    def messages(self, bodies: Sequence[bytes]) -> list[bytes]:
        host, path = self.address.host, self.address.prefix + self.api.path
        return [encode_request(host, path, body) for body in bodies]

    def wire(
        self,
        requests: Sequence[PlannedRequest],
        messages: list[bytes],
        watch: Watch,
        beats_from_ns: int = 0,
    ) -> Wire:
        return Wire(
            self.address,
            [request.at_ns for request in requests],
            messages,
            turns=turns_of(requests),
            request_timeout_s=self.request_timeout_s,
            beats_from_ns=beats_from_ns,
            watch=watch,
        )

    async def text_scale(self, model: str) -> TextScale:
        """Ask the server how long its prompts become. Raises ReplayError, ReplayInterrupted."""
        messages = self.messages(encode_probes(model, _PROBE_SEED))
        requests = [PlannedRequest(0, 1, 1, (_PROBE_SEED,), counted=False) for _ in messages]
        watch = Watch(len(messages), self.stall_timeout_s, self.alive, None)
        wire = self.wire(requests, messages, watch)
        load, failure = await _Play(wire, watch, requests, Counted(0, 1), True).to_the_end(None)
        answers = read_answers(load)
        _log_failures(answers.statuses, answers.details)
        if failure is not None:
            raise ReplayInterrupted(failure, build_traces(load, answers))
        return fit_scale([stream.prompt_tokens for stream in answers.streams])


@dataclass(slots=True)
class _Play:
    """One load while it is played."""

    wire: Wire
    watch: Watch
    requests: Sequence[PlannedRequest]
    window: Counted
    text_prompts: bool
    _offset_ns: int = 0
    _cpu_before_s: float = 0.0

    async def to_the_end(self, look: Look | None) -> tuple[Load, Failure | None]:
        """The load, and what ended it early if the server did."""
        with collector_paused(), quick_switches(), precedence_of_the_loop():
            self._offset_ns, self._cpu_before_s = wall_offset_ns(), time.process_time()
            try:
                failure = await self._until_end(look)
            finally:
                self.wire.close()
            return self._load(self.wire.records), failure

    async def _until_end(self, look: Look | None) -> Failure | None:
        with ThreadPoolExecutor(1, "replay") as threads:
            work = asyncio.get_running_loop().run_in_executor(threads, self.wire.run)
            looking = asyncio.create_task(self.watch.until_failure())
            tasks: list[asyncio.Future[Any]] = [work, looking]
            if look is not None:
                tasks.append(asyncio.create_task(self._until_settled(look)))
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.wire.stop()
                for task in tasks[1:]:
                    task.cancel()
                await asyncio.wait(tasks)
        # whatever broke here says more than what was seen of the server
        for task in (work, *tasks[2:]):
            if not task.cancelled():
                task.result()
        return self.watch.finish() if looking.cancelled() else looking.result()

    async def _until_settled(self, look: Look) -> None:
        """To the look, and for ever after one that settles nothing."""
        at_ns = self.window.end_ns + look.after_ns
        # time zero is set when the thread begins, which may be later than this does
        while perf_counter_ns() < self.wire.zero_ns + at_ns:
            left_ns = self.wire.zero_ns + at_ns - perf_counter_ns()
            await asyncio.sleep(left_ns / 1e9)
        if not await asyncio.to_thread(self._look, look):
            await asyncio.Event().wait()

    def _look(self, look: Look) -> bool:
        """Parses all that has come, beside the thread that takes the times.

        That one takes its turn whenever it needs it, but not from a thread that others keep from
        running at all; so this one goes before those too.
        """
        with precedence():
            return look.settled(self._so_far())

    def _so_far(self) -> Traces:
        load = self._load([record.so_far() for record in self.wire.records])
        return build_traces(load, read_answers(load))

    def _load(self, records: Sequence[Record]) -> Load:
        stopped_ns = perf_counter_ns()
        cpu_s = time.process_time() - self._cpu_before_s
        return Load(
            requests=self.requests,
            records=records,
            zero_ns=self.wire.zero_ns,
            stopped_ns=stopped_ns,
            window=self.window,
            lags_ns=list(self.wire.lags_ns),
            cpu_share=_share(cpu_s, stopped_ns - self.wire.zero_ns),
            wall_offsets_ns=(self._offset_ns, wall_offset_ns()),
            text_prompts=self.text_prompts,
        )


def _share(cpu_s: float, since_zero_ns: int) -> float:
    return cpu_s * 1e9 / (since_zero_ns + HEAD_START_NS)


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
