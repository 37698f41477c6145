"""A bench whose servers do as a script says: synthetic traces, failures to order."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from advisor.measure.stop import known_at
from advisor.terms.errors import LaunchFailed, ReplayInterrupted
from advisor.terms.flags import FlagValue
from advisor.terms.job import EngineInfo, Launch, ServerFacts
from advisor.terms.outcome import Failure, Reason, ReplayOutcome
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.traces import MISSING, ClientAudit, Look, RequestStatus, Traces
from advisor.tune.ports import Mark, Progress

MS = 1_000_000
#: Requests counted at a load of 1, and tokens of an answer.
REQUESTS, TOKENS = 160, 5
#: How much slower everything is above the load that a setting carries.
OVERLOAD = 20.0
#: What a server runs with where a setting leaves a flag out, as vLLM's defaults are.
DEFAULTS: dict[str, FlagValue] = {"max_num_seqs": 256}


def failure(reason: Reason = Reason.OOM_LOAD, message: str = "out of memory") -> Failure:
    return Failure(reason, message, "load")


@dataclass(frozen=True)
class Dials:
    """How one setting behaves."""

    ttft_ms: float = 100.0
    itl_ms: float = 10.0
    #: the load multiple up to which it is that fast
    carries: float = 1.0
    #: of the requests, these are `OVERLOAD` times slower, in one clump at the window's end
    slow_share: float = 0.0
    #: of the requests, these get an HTTP error
    failed_share: float = 0.0
    #: the launch fails so
    start: Failure | None = None
    #: the server ends in its n-th replay (from 0), or in any above this load, by `crash`
    crash_at_replay: int | None = None
    crash_above: float | None = None
    crash: Failure = field(default_factory=lambda: failure(Reason.CRASHED_UNDER_LOAD, "died"))
    #: the client is late in the first so many plays of each window, or in any above this load
    late_plays: int = 0
    late_above: float | None = None
    #: the longest requests, all at once, end the server by this, or so large a share of them fails
    soak_crash: Failure | None = None
    soak_failed_share: float = 0.0


Script = Callable[[Setting], Dials]
#: Told of everything that the bench does, before it does it: (deed, detail).
Tap = Callable[[str, object], None]


def _no_tap(deed: str, detail: object) -> None:
    """Nobody listens."""


@dataclass
class ScriptedBench:
    """Implements `advisor.tune.ports.Bench`; equal scripts and plans give equal traces."""

    script: Script
    tap: Tap = _no_tap
    #: of each answer
    tokens: int = TOKENS
    #: flags that its servers run at these values, whatever is asked
    ignores: Mapping[str, FlagValue] = field(default_factory=dict)
    #: every launch's setting, and every plan played, in order
    launched: list[Setting] = field(default_factory=list)
    played: list[tuple[Setting, Plan]] = field(default_factory=list)
    serving: int = 0

    async def about(self) -> EngineInfo:
        return EngineInfo("scripted", "1", "paper", "m", simulated=True)

    def hold(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    @asynccontextmanager
    async def serve(
        self, setting: Setting, mark: Mark = lambda token: None
    ) -> AsyncIterator["ScriptedServer"]:
        mark(f"token-{len(self.launched)}")
        self.tap("launch", setting)
        assert self.serving == 0, "the launch before has not ended"
        self.launched.append(setting)
        dials = self.script(setting)
        if dials.start is not None:
            raise LaunchFailed(dials.start)
        self.serving += 1
        try:
            yield ScriptedServer(self, setting, dials)
        finally:
            self.serving -= 1
        self.tap("end", setting)


@dataclass
class ScriptedServer:
    bench: ScriptedBench
    setting: Setting
    dials: Dials
    _replays: int = 0
    _dead: bool = False
    _plays: dict[tuple[str, float], int] = field(default_factory=dict)

    @property
    def launch(self) -> Launch:
        resolved = {**DEFAULTS, **dict(self.setting.flags), **self.bench.ignores}
        ignored = tuple(
            f"{name}: asked {value}, runs {resolved[name]}"
            for name, value in self.setting.flags
            if value != resolved[name]
        )
        return Launch(tuple(sorted(resolved.items())), 1.0, 1000, ignored)

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        self.bench.tap("replay", plan)
        assert not self._dead, "load sent to a server that is known to be dead"
        self.bench.played.append((self.setting, plan))
        key = (plan.window.name, plan.multiple)
        play = self._plays[key] = self._plays.get(key, 0) + 1
        number, self._replays = self._replays, self._replays + 1
        dials, multiple = self.dials, plan.multiple
        played = traces(dials, plan, self.bench.tokens)
        late = play <= dials.late_plays or _above(multiple, dials.late_above)
        audit = ClientAudit(0.0, 500.0 if late else 0.0, 500.0, None, None, None, "virtual")
        played = replace(played, audit=audit)
        crash = dials.crash if _crashes(dials, number, multiple) else None
        if plan.at_once is not None:
            crash = crash or dials.soak_crash
        if crash is not None:
            self._dead = True
            raise ReplayInterrupted(crash, played)
        if on_progress is not None:
            on_progress(1.0)
        if look is not None:
            so_far = known_at(played, played.window_end_ns + look.after_ns)
            return so_far if look.settled(so_far) else played
        return played

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        assert not self._dead, "a dead server was asked for its facts"
        return ServerFacts(generation_tokens=None if since is None else 1.0)

    def doubt(self, facts: ServerFacts) -> tuple[ReplayOutcome, str]:
        return ReplayOutcome.VALID, ""


def _crashes(dials: Dials, number: int, multiple: float) -> bool:
    return number == dials.crash_at_replay or _above(multiple, dials.crash_above)


def _above(multiple: float, limit: float | None) -> bool:
    return limit is not None and multiple > limit


def traces(dials: Dials, plan: Plan, tokens: int = TOKENS) -> Traces:
    """Evenly spaced requests, one event a token; times within a tenth of what the dials say."""
    n = plan.at_once or round(REQUESTS * plan.multiple)
    start_ns = plan.lead_in_ns
    end_ns = start_ns + plan.window.duration_ns
    step_ns = 0 if plan.at_once else plan.window.duration_ns
    planned = start_ns + np.arange(n) * step_ns // n
    # low discrepancy, so that no block of time is slower than another; from elsewhere in each
    # window, so that no window is exactly like another
    golden = (np.arange(n) + plan.window.start_ns // MS) * 0.6180339887 % 1
    slower = (0.9 + 0.2 * golden) * (OVERLOAD if plan.multiple > dials.carries else 1.0)
    slower[n - round(n * dials.slow_share) :] *= OVERLOAD
    first = planned + np.round(dials.ttft_ms * MS * slower).astype(np.int64)
    gaps = np.round(dials.itl_ms * MS * slower).astype(np.int64)
    failed_share = dials.soak_failed_share if plan.at_once else dials.failed_share
    failed = np.arange(n) < round(n * failed_share)
    answered = np.where(failed, 0, tokens)
    events = (first[:, None] + np.arange(tokens) * gaps[:, None])[~failed]
    status = np.where(failed, RequestStatus.HTTP, RequestStatus.OK).astype(np.uint8)
    return Traces(
        planned_ns=planned.astype(np.int64),
        sent_ns=planned.astype(np.int64),
        end_ns=np.where(failed, planned, first + (tokens - 1) * gaps),
        status=status,
        counted=np.ones(n, dtype=np.bool_),
        input_tokens=np.full(n, 100),
        prompt_tokens=np.full(n, MISSING),
        output_tokens=np.full(n, tokens),
        event_offsets=np.concatenate(([0], np.cumsum(answered))),
        event_ns=events.ravel(),
        event_tokens=np.ones(events.size, dtype=np.int32),
        window_start_ns=start_ns,
        window_end_ns=end_ns,
    )
