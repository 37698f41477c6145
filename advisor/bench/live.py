"""LiveBench: a setting becomes a real server, and is measured by replaying load against it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from advisor.bench.play import Progress, salt
from advisor.engine.checkpoint import read_checkpoint
from advisor.engine.doctor import hardware_name
from advisor.engine.endpoint import Endpoint
from advisor.engine.metrics import FactsWatch
from advisor.engine.vllm import VllmEngine
from advisor.profile.schedule import schedule
from advisor.replay.client import replay
from advisor.terms.errors import ReplayInterrupted
from advisor.terms.job import Api, EngineInfo, Launch, ServerFacts
from advisor.terms.profile import Plan, PlannedRequest, Profile
from advisor.terms.setting import Setting
from advisor.terms.traces import Traces

#: Below the vocabulary of every common model family; used when the checkpoint is not a local
#: folder that tells its own.
_SAFE_VOCABULARY = 30_000
#: Longer than any request of a replay may take before it counts as timed out.
_REQUEST_TIMEOUT_S = 600.0
#: No stream brings a token for this long while requests are open: the engine hangs.
_STALL_TIMEOUT_S = 120.0
#: Requests at once in the warm-up, and tokens asked of each.
_WARM_UP_REQUESTS, _WARM_UP_TOKENS = 4, 8


@dataclass(frozen=True, slots=True)
class LiveBench:
    """Launches real servers through an engine; what it measures took real time."""

    profile: Profile
    engine: VllmEngine
    model: str
    api: Api = Api.COMPLETIONS

    async def about(self) -> EngineInfo:
        version = await self.engine.version()
        # the stand-in names itself in its version, whatever command started it
        simulated = version.startswith("vllm-sim ")
        hardware = f"simulated by {version}" if simulated else await hardware_name()
        return EngineInfo("vllm", version, hardware, self.model, simulated)

    @asynccontextmanager
    async def serve(self, setting: Setting) -> AsyncIterator["LiveServer"]:
        """Raises LaunchFailed when the server does not come up; ends it on leaving."""
        async with (
            self.engine.serve(setting) as endpoint,
            FactsWatch(endpoint.base_url) as watch,
        ):
            server = LiveServer(self.profile, endpoint, watch, vocabulary(setting.model), self.api)
            await server.warm_up()
            yield server


@dataclass(frozen=True, slots=True)
class LiveServer:
    """One running server under our load generator."""

    profile: Profile
    endpoint: Endpoint
    watch: FactsWatch
    vocabulary: int
    api: Api

    @property
    def launch(self) -> Launch:
        return self.endpoint.launch

    async def replay(self, plan: Plan, on_progress: Progress | None = None) -> Traces:
        start_ns = plan.lead_in_ns
        end_ns = start_ns + plan.window.duration_ns
        return await self._play(schedule(self.profile, plan), start_ns, end_ns, on_progress)

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
        return await self.watch.facts(since)

    async def _play(
        self,
        requests: Sequence[PlannedRequest],
        start_ns: int,
        end_ns: int,
        on_progress: Progress | None,
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
                request_timeout_s=_REQUEST_TIMEOUT_S,
                stall_timeout_s=_STALL_TIMEOUT_S,
                alive=lambda: self.endpoint.failure() is None,
                on_progress=on_progress,
                api=self.api,
            )
        except ReplayInterrupted as exc:
            # the client saw that it ended; why it ended stands in the server's log
            known = self.endpoint.failure()
            raise exc if known is None else ReplayInterrupted(known, exc.traces) from exc


def vocabulary(model: str) -> int:
    """Token ids that prompts may use: the local checkpoint's own, else a safe number."""
    return read_checkpoint(model).vocabulary or _SAFE_VOCABULARY
