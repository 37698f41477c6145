"""LiveBench: a setting becomes a real server, and is measured by replaying load against it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from advisor.bench.doubts import Ceiling, Doubt, ceiling, doubt
from advisor.bench.drain import drained
from advisor.bench.play import Progress
from advisor.bench.warmup import Shapes, Warmed, warm_up
from advisor.engine.checkpoint import read_checkpoint
from advisor.engine.endpoint import Endpoint, read_from
from advisor.engine.engine import Engine, Mark, unmarked
from advisor.engine.metrics import FactsWatch
from advisor.profile.schedule import schedule
from advisor.replay.client import replay
from advisor.replay.pacing import collector_paused
from advisor.terms.errors import LaunchFailed, ReplayInterrupted
from advisor.terms.job import Api, EngineInfo, Launch, ServerFacts
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan, PlannedRequest, Profile
from advisor.terms.setting import Setting
from advisor.terms.traces import Look, Traces

_logger = logging.getLogger(__name__)

#: Below the vocabulary of every common model family; used when the checkpoint is not a local
#: folder that tells its own.
_SAFE_VOCABULARY = 30_000
#: Longer than any request of a replay may take before it counts as timed out.
_REQUEST_TIMEOUT_S = 600.0
#: No stream brings a token for this long while requests are open: the engine hangs.
_STALL_TIMEOUT_S = 120.0
#: A warm-up may take so long, or this share of the start's time where that is more.
_WARM_UP_S, _WARM_UP_SHARE = 10.0, 0.25
#: Requests that a client gave up are out of vLLM within a step; others' may never end.
_DRAIN_S = 30.0


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
    #: the job's, as a multiple of the recorded one: how many requests are open at once
    load: float = 1.0
    #: how long a replay waits for an idle server
    drain_timeout_s: float = _DRAIN_S

    async def about(self) -> EngineInfo:
        version = await self.engine.version()
        await self.engine.check_flags(self.flags, version)
        # the stand-in names itself in its version, whatever command started it
        simulated = version.startswith("vllm-sim ")
        hardware = f"simulated by {version}" if simulated else await self.engine.hardware()
        gpus = len(self.engine.devices.names()) or None
        return EngineInfo(self.engine.kind, version, hardware, self.model, simulated, gpus)

    def hold(self, what: str) -> AbstractContextManager[None]:
        return self.engine.hold(what)

    @asynccontextmanager
    async def serve(self, setting: Setting, mark: Mark = unmarked) -> AsyncIterator["LiveServer"]:
        """Raises LaunchFailed when the server does not come up; ends it on leaving."""
        async with (
            self.engine.serve(setting, mark) as endpoint,
            FactsWatch(endpoint.base_url, self.engine.devices) as watch,
        ):
            server = LiveServer(self, endpoint, watch, vocabulary(setting.model))
            await server.warm_up()
            yield server


@dataclass(slots=True)
class LiveServer:
    """One running server under our load generator."""

    bench: LiveBench
    endpoint: Endpoint
    watch: FactsWatch
    vocabulary: int
    warmed: Warmed = field(default_factory=lambda: Warmed((), ""))
    #: what was still open when the replay began
    _open: str = ""
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
        requests = schedule(self.bench.profile, plan)
        self._most = ceiling(requests, self.bench.profile.block_tokens)
        self._open = await drained(self.watch.facts, self.bench.drain_timeout_s)
        with self._reading_log(start_ns / 1e9):
            return await self._play(requests, start_ns, end_ns, on_progress, look)

    def doubt(self, facts: ServerFacts) -> Doubt:
        if self._open:
            return ReplayOutcome.CONTAMINATED, self._open
        outcome, note = doubt(facts, self._most, self._log)
        return outcome, note or self.warmed.note

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
        """The profile's shapes until latency settles: nothing counts before."""
        launch, bench = self.launch, self.bench
        most = dict(launch.resolved).get("max_num_seqs")
        shapes = Shapes(bench.profile, bench.load, most if isinstance(most, int) else None)

        async def play(requests: list[PlannedRequest]) -> Traces:
            return await self._play(requests, 0, 1, None)

        most_s = max(_WARM_UP_S, _WARM_UP_SHARE * launch.cold_start_s)
        with collector_paused():
            self.warmed = await warm_up(shapes, play, most_s)
        if self.warmed.note:
            _logger.warning("%s: %s", self.endpoint.served_model_name, self.warmed.note)

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
                block_tokens=self.bench.profile.block_tokens,
                vocab_size=self.vocabulary,
                window_start_ns=start_ns,
                window_end_ns=end_ns,
                request_timeout_s=self.bench.request_timeout_s,
                stall_timeout_s=self.bench.stall_timeout_s,
                alive=lambda: self.endpoint.failure() is None,
                on_progress=on_progress,
                api=self.bench.api,
                look=look,
            )
        except ReplayInterrupted as exc:
            # the client saw that it ended; why it ended stands in the server's log
            known = self.endpoint.failure()
            raise exc if known is None else ReplayInterrupted(known, exc.traces) from exc


def vocabulary(model: str) -> int:
    """Token ids that prompts may use: the local checkpoint's own, else a safe number."""
    return read_checkpoint(model).vocabulary or _SAFE_VOCABULARY
