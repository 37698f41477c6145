"""LiveBench: a setting becomes a real server, and is measured by replaying load against it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from advisor.bench.doubts import Ceiling, Doubt, ceiling, doubt
from advisor.bench.play import Progress, salt
from advisor.engine.checkpoint import read_checkpoint
from advisor.engine.endpoint import Endpoint, read_from
from advisor.engine.engine import Engine, Mark, unmarked
from advisor.engine.metrics import FactsWatch
from advisor.measure.definitions import is_unseen
from advisor.profile.schedule import schedule
from advisor.replay.client import replay
from advisor.terms.errors import LaunchFailed, ReplayInterrupted
from advisor.terms.job import Api, EngineInfo, Launch, ServerFacts
from advisor.terms.outcome import Failure, Reason
from advisor.terms.profile import Plan, PlannedRequest, Profile
from advisor.terms.setting import Setting
from advisor.terms.traces import Look, Traces

#: Below the vocabulary of every common model family; used when the checkpoint is not a local
#: folder that tells its own.
_SAFE_VOCABULARY = 30_000
#: Longer than any request of a replay may take before it counts as timed out.
_REQUEST_TIMEOUT_S = 600.0
#: No stream brings a token for this long while requests are open: the engine hangs.
_STALL_TIMEOUT_S = 120.0
#: Between two questions whether the server is idle.
_IDLE_GLANCE_S = 0.1
#: Requests at once in the warm-up, and tokens asked of each.
_WARM_UP_REQUESTS, _WARM_UP_TOKENS = 4, 8


@dataclass(frozen=True, slots=True)
class LiveBench:
    """Launches real servers through an engine; what it measures took real time."""

    profile: Profile
    engine: Engine
    model: str
    #: (where it was asked for, flag): held against the command's own list before anything starts
    flags: tuple[tuple[str, str], ...] = ()
    #: no request may take longer, and no stream may pause for longer while requests are open
    request_timeout_s: float = _REQUEST_TIMEOUT_S
    stall_timeout_s: float = _STALL_TIMEOUT_S
    api: Api = Api.COMPLETIONS

    async def about(self) -> EngineInfo:
        version = await self.engine.version()
        await self.engine.check_flags(self.flags, version)
        # the stand-in names itself in its version, whatever command started it
        simulated = version.startswith("vllm-sim ")
        hardware = f"simulated by {version}" if simulated else await self.engine.hardware()
        return EngineInfo(self.engine.kind, version, hardware, self.model, simulated)

    def hold(self, what: str) -> AbstractContextManager[None]:
        return self.engine.hold(what)

    @asynccontextmanager
    async def serve(self, setting: Setting, mark: Mark = unmarked) -> AsyncIterator["LiveServer"]:
        """Raises LaunchFailed when the server does not come up; ends it on leaving."""
        async with (
            self.engine.serve(setting, mark) as endpoint,
            FactsWatch(endpoint.base_url, self.engine.devices) as watch,
        ):
            server = LiveServer(
                self.profile,
                endpoint,
                watch,
                vocabulary(setting.model),
                self.request_timeout_s,
                self.stall_timeout_s,
                self.api,
            )
            await server.warm_up()
            yield server


@dataclass(slots=True)
class LiveServer:
    """One running server under our load generator."""

    profile: Profile
    endpoint: Endpoint
    watch: FactsWatch
    vocabulary: int
    request_timeout_s: float
    stall_timeout_s: float
    api: Api
    #: of the replay just played: what its plan can cause, and the log of its counted window
    _most: Ceiling = field(default_factory=lambda: Ceiling(0, 0, 0))
    _log: str = ""

    @property
    def launch(self) -> Launch:
        return self.endpoint.launch

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        start_ns = plan.lead_in_ns
        end_ns = start_ns + plan.window.duration_ns
        requests = schedule(self.profile, plan)
        self._most = ceiling(requests, self.profile.block_tokens)
        with self._reading_log(start_ns / 1e9):
            traces = await self._play(requests, start_ns, end_ns, on_progress, look)
            if look is not None and is_unseen(traces).any():
                await self._until_idle()
            return traces

    async def _until_idle(self) -> None:
        """What was given up must not run into the next replay. Raises LaunchFailed."""
        deadline_s = time.monotonic() + self.request_timeout_s
        while True:
            now = await self.facts()
            busy = (now.running_max or 0) + (now.waiting_max or 0)
            if not busy:
                return
            if time.monotonic() > deadline_s:
                text = f"{busy:g} requests still ran {self.request_timeout_s:g} s after their end"
                raise LaunchFailed(Failure(Reason.HUNG, text, stage="load"))
            await asyncio.sleep(_IDLE_GLANCE_S)

    def doubt(self, facts: ServerFacts) -> Doubt:
        return doubt(facts, self._most, self._log)

    @contextmanager
    def _reading_log(self, after_s: float) -> Iterator[None]:
        """What the server writes from that moment on to the end: the lead-in may still compile."""
        sizes: list[int] = []
        path = self.endpoint.log_path

        def remember() -> None:
            sizes.append(path.stat().st_size)

        timer = asyncio.get_running_loop().call_later(after_s, remember)
        try:
            yield
        finally:
            timer.cancel()
            self._log = read_from(path, sizes[0]) if sizes else ""

    async def warm_up(self) -> None:
        """The profile's longest prompt, several at once: shapes compile before anything counts."""
        longest = max(self.profile.requests, key=lambda request: request.input_length)
        blocks = -(-longest.input_length // self.profile.block_tokens)
        requests = [
            PlannedRequest(
                at_ns=0,
                input_length=longest.input_length,
                output_length=min(_WARM_UP_TOKENS, longest.output_length),
                block_ids=tuple(salt("warm-up", number, k) for k in range(blocks)),
                counted=False,
            )
            for number in range(_WARM_UP_REQUESTS)
        ]
        await self._play(requests, 0, 1, None)

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        """Raises LaunchFailed when the server has ended between two replays."""
        read = await self.watch.facts(since)
        failure = self.endpoint.failure()
        if failure is not None:
            raise LaunchFailed(failure)
        return read

    async def _play(
        self,
        requests: Sequence[PlannedRequest],
        start_ns: int,
        end_ns: int,
        on_progress: Progress | None,
        look: Look | None = None,
    ) -> Traces:
        try:
            return await replay(
                requests,
                self.endpoint.base_url,
                self.endpoint.served_model_name,
                block_tokens=self.profile.block_tokens,
                vocab_size=self.vocabulary,
                window_start_ns=start_ns,
                window_end_ns=end_ns,
                request_timeout_s=self.request_timeout_s,
                stall_timeout_s=self.stall_timeout_s,
                alive=lambda: self.endpoint.failure() is None,
                on_progress=on_progress,
                api=self.api,
                look=look,
            )
        except ReplayInterrupted as exc:
            # the client saw that it ended; why it ended stands in the server's log
            known = self.endpoint.failure()
            raise exc if known is None else ReplayInterrupted(known, exc.traces) from exc


def vocabulary(model: str) -> int:
    """Token ids that prompts may use: the local checkpoint's own, else a safe number."""
    return read_checkpoint(model).vocabulary or _SAFE_VOCABULARY
