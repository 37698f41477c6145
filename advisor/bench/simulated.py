"""SimBench: a setting becomes a simulated server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace

from advisor import __version__
from advisor.bench.doubts import NO_DOUBT, Doubt
from advisor.bench.play import Progress, salt
from advisor.measure.definitions import is_unseen
from advisor.measure.stop import known_at
from advisor.profile.columns import Columns
from advisor.sim.config import EngineConfig, resolve
from advisor.sim.hardware import Hardware
from advisor.sim.simulate import SimRun, simulate
from advisor.terms.job import EngineInfo, Launch, ServerFacts
from advisor.terms.profile import Plan, Profile, Window
from advisor.terms.setting import Setting
from advisor.terms.traces import Look, Traces

#: What a server counts of latencies.
_LATENCIES = ("ttft_s_sum", "ttft_count", "itl_s_sum", "itl_count", "queue_time_s")


@dataclass(frozen=True, slots=True)
class SimBench:
    """Launches in no time, measures in virtual time, and is labelled simulated everywhere."""

    profile: Profile
    hardware: Hardware
    model: str
    seed: int
    _columns: Columns = field(init=False, repr=False)
    #: window -> the one that was played after it
    _follows: dict[str, Window] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_columns", Columns.of(self.profile))

    async def about(self) -> EngineInfo:
        return EngineInfo("sim", __version__, self.hardware.name, self.model, simulated=True)

    def hold(self, what: str) -> AbstractContextManager[None]:
        """Any number of simulations may run beside each other."""
        return nullcontext()

    @asynccontextmanager
    async def serve(
        self, setting: Setting, mark: Callable[[str], None] | None = None
    ) -> AsyncIterator["SimServer"]:
        """Raises LaunchFailed where the memory or the rules of vLLM forbid the setting.

        There are no processes that `mark` could get the token of.
        """
        config = resolve(setting, self.hardware)
        with ThreadPoolExecutor(1) as thread:
            yield SimServer(self._columns, config, self.seed, thread, self._follows)


@dataclass(slots=True)
class SimServer:
    """One simulated launch; every replay starts from an empty queue and a cold cache.

    While a replay is measured and written down, the one that usually follows is played already.
    """

    columns: Columns
    config: EngineConfig
    seed: int
    thread: ThreadPoolExecutor
    follows: dict[str, Window]
    #: launches of one setting differ a little; which launch this is, its first window tells
    _launch_seed: int | None = None
    _facts: ServerFacts = field(default_factory=ServerFacts)
    _last: Plan | None = None
    _ahead: tuple[Plan, Future[SimRun]] | None = None

    @property
    def launch(self) -> Launch:
        return Launch(
            resolved=tuple(sorted(self.config.resolved_flags().items())),
            cold_start_s=0.0,
            kv_cache_tokens=self.config.kv_cache_tokens,
        )

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        # virtual time never waits; without this an interrupt would be heard only after the job
        await asyncio.sleep(0)
        if self._launch_seed is None:
            self._launch_seed = salt(self.seed, plan.salt, plan.window.name) % 2**32
        run = self._run(plan, self._launch_seed)
        self._play_ahead(plan, self._launch_seed)
        self._facts = run.facts
        if on_progress is not None:
            on_progress(1.0)
        if look is None:
            return run.traces
        so_far = known_at(run.traces, run.traces.window_end_ns + look.after_ns)
        if not look.settled(so_far):
            return run.traces
        if is_unseen(so_far).any():
            # these are of the whole replay, which nobody saw
            self._facts = replace(run.facts, **dict.fromkeys(_LATENCIES))
        return so_far

    def _run(self, plan: Plan, launch: int) -> SimRun:
        if self._ahead is not None:
            played, run = self._ahead
            # the salt of a plan changes no id that a simulated cache is asked for
            if replace(played, salt=plan.salt) == plan:
                return run.result()
        return self._play(plan, launch)

    def _play_ahead(self, plan: Plan, launch: int) -> None:
        last, self._last, self._ahead = self._last, plan, None
        if plan.at_once is not None:
            return  # the last that a server gets
        if last is not None and last.multiple == plan.multiple:
            self.follows[last.window.name] = plan.window
        window = self.follows.get(plan.window.name)
        if window is not None:
            expected = replace(plan, window=window)
            self._ahead = expected, self.thread.submit(self._play, expected, launch)

    def _play(self, plan: Plan, launch: int) -> SimRun:
        start_ns = plan.lead_in_ns
        return simulate(
            self.columns.load(plan),
            self.config,
            window_start_ns=start_ns,
            window_end_ns=start_ns + plan.window.duration_ns,
            seed=launch,
        )

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        """Of the replay just played: a simulated server has no counters between replays."""
        return self._facts if since is not None else ServerFacts()

    def doubt(self, facts: ServerFacts) -> Doubt:
        """Nobody else uses a simulated server, and nothing slows it."""
        return NO_DOUBT
