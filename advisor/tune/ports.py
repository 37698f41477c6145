"""The seams of a job: what the conductor needs, and nothing about how it is done.

Two implementations of each exist: the real one and the simulator's, or a test's.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from advisor.measure.scored import Scored as Scored
from advisor.terms.advice import Advice
from advisor.terms.job import (
    EngineInfo,
    Job,
    JobSpec,
    Launch,
    Phase,
    Proposal,
    Replay,
    ServerFacts,
    Trial,
    TrialResult,
)
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.terms.traces import Look, Traces

#: Called with the share of the replay that is done, 0..1.
Progress = Callable[[float], None]

#: Called with a launch's token before anything of it is started.
Mark = Callable[[str], None]


class Server(Protocol):
    """One launched setting, ready for load."""

    @property
    def launch(self) -> Launch: ...

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        """Play the plan, open loop, to the end of its last request.

        With a `look`, requests that are open when what it sees is settled are given up there
        (STOPPED). Every replay begins on an idle server.

        Raises LaunchFailed when the server died or hung under it, ReplayError when the client
        itself broke.
        """
        ...

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        """Counters now, or their change and the gauges' maxima since an earlier reading."""
        ...

    def doubt(self, facts: ServerFacts) -> tuple[ReplayOutcome, str]:
        """What the server's side says against the replay just played, given its facts; `valid`
        and an empty note when there is nothing."""
        ...


class Bench(Protocol):
    """Where settings are measured."""

    async def about(self) -> EngineInfo:
        """What is under test. Raises InputError when it cannot be used at all."""
        ...

    def hold(self, what: str) -> AbstractContextManager[None]:
        """Keep what it measures on for this process alone; `what` is told to whoever comes next.

        Raises Blocked that names who has it, InputError where no launch could follow.
        """
        ...

    def serve(self, setting: Setting, mark: Mark = ...) -> AbstractAsyncContextManager[Server]:
        """Launch the setting; on leaving, nothing of it is left.

        `mark` gets the token by which everything of this launch can be found, before there is
        anything; a bench without processes does not call it. Entering raises LaunchFailed when
        it does not come up.
        """
        ...


class Searcher(Protocol):
    """Chooses what to try next; deterministic in (seed, what it was told)."""

    @property
    def why_ended(self) -> str:
        """For a person: why `ask` gave None."""
        ...

    def ask(self) -> Proposal | None:
        """The next setting, never one already told or still running; None when there is none
        worth a launch, as far as is known while others run."""
        ...

    def resume(self, proposal: Proposal) -> None:
        """One that an earlier process asked for is launched again: it is running, as if it had
        just been asked for."""
        ...

    def simpler(self, setting: Setting, baseline: Setting) -> Proposal | None:
        """The setting with one of its changes against the baseline taken back, not yet tried and
        not known to fail; None when there is no such."""
        ...

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """Learn how a proposal ended; also replays the ledger's trials after a restart."""
        ...


class Ledger(Protocol):
    """The only truth about a job; every call is one transaction."""

    def open_job(self, spec: JobSpec, engine: EngineInfo) -> Job: ...

    def job(self, job_id: str) -> Job:
        """Raises NotFound."""
        ...

    def resolve_targets(self, job_id: str, targets: Sequence[Target]) -> None: ...

    def open_trial(
        self,
        job_id: str,
        phase: Phase,
        proposal: Proposal,
        round_: int | None = None,
        repeat: int | None = None,
    ) -> int:
        """Write the trial as running, before its launch; returns its number in the job."""
        ...

    def mark(self, job_id: str, number: int, token: str) -> None:
        """Write by which token the processes of a running trial can be found."""
        ...

    def add_replay(self, job_id: str, number: int, replay: Replay) -> None: ...

    def close_trial(self, job_id: str, number: int, result: TrialResult) -> None: ...

    def trials(self, job_id: str) -> list[Trial]:
        """In order of their numbers."""
        ...

    def scored(self, job_id: str) -> Mapping[int, Sequence[Scored]]:
        """By trial number, every replay that a verdict may rest on."""
        ...

    def spend(self, job_id: str, windows: Sequence[str]) -> None:
        """Mark held-out windows as used, before the replay that uses them."""
        ...

    def store_advice(self, job_id: str, advice: Advice) -> None:
        """Ends the job."""
        ...
