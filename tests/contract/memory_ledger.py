"""A ledger in memory, for tests of what uses one."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from advisor.measure.curves import curves
from advisor.measure.scored import Scored
from advisor.terms.advice import Advice
from advisor.terms.errors import LedgerError, NotFound
from advisor.terms.job import (
    EngineInfo,
    Job,
    JobSpec,
    Phase,
    Proposal,
    Replay,
    Trial,
    TrialResult,
)
from advisor.terms.outcome import TrialState
from advisor.terms.target import Target


@dataclass
class _Entry:
    job: Job
    trials: list[Trial] = field(default_factory=list)
    opened_s: list[float] = field(default_factory=list)
    replays: dict[int, list[Replay]] = field(default_factory=dict)
    scored: dict[int, list[Scored]] = field(default_factory=dict)
    advice: Advice | None = None


class MemoryLedger:
    """Implements `advisor.tune.ports.Ledger`; time is a counter unless one is given."""

    def __init__(self, now_s: Callable[[], float] | None = None) -> None:
        ticks = itertools.count()
        self._now_s = now_s or (lambda: float(next(ticks)))
        self._entries: dict[str, _Entry] = {}

    def open_job(self, spec: JobSpec, engine: EngineInfo) -> Job:
        job_id = f"{len(self._entries):08x}"
        job = Job(job_id, spec, spec.targets, engine, "2026-01-01T00:00:00+00:00", "open")
        self._entries[job_id] = _Entry(job)
        return job

    def job(self, job_id: str) -> Job:
        return self._entry(job_id).job

    def claim(self, job_id: str) -> Job:
        """What was left running by a process that died is closed as interrupted."""
        entry = self._entry(job_id)
        for trial in entry.trials:
            if trial.result.state is TrialState.RUNNING:
                self.close_trial(job_id, trial.number, TrialResult(TrialState.INTERRUPTED))
        return entry.job

    def resolve_targets(self, job_id: str, targets: Sequence[Target]) -> None:
        entry = self._open_entry(job_id)
        entry.job = replace(entry.job, targets=tuple(targets))

    def open_trial(
        self,
        job_id: str,
        phase: Phase,
        proposal: Proposal,
        round_: int | None = None,
        repeat: int | None = None,
    ) -> int:
        entry = self._open_entry(job_id)
        number = len(entry.trials)
        running = TrialResult(TrialState.RUNNING)
        trial = Trial(number, phase, proposal.setting, proposal.origin, running, round_, repeat)
        entry.trials.append(trial)
        entry.opened_s.append(self._now_s())
        entry.replays[number] = []
        return number

    def mark(self, job_id: str, number: int, token: str) -> None:
        entry = self._running(job_id, number)
        entry.trials[number] = replace(entry.trials[number], token=token)

    def add_replay(self, job_id: str, number: int, replay: Replay) -> None:
        entry = self._running(job_id, number)
        entry.replays[number].append(replay)
        if replay.outcome.is_scored:
            entry.scored.setdefault(number, []).append(_scored(replay))
        trial = entry.trials[number]
        entry.trials[number] = replace(trial, replays=trial.replays + 1)

    def close_trial(self, job_id: str, number: int, result: TrialResult) -> None:
        if result.state is TrialState.RUNNING:
            raise LedgerError(f"job {job_id} trial {number}: cannot be closed as running")
        entry = self._running(job_id, number)
        ended_s = self._now_s()
        entry.trials[number] = replace(
            entry.trials[number],
            result=result,
            elapsed_s=ended_s - entry.opened_s[number],
            ended_s=ended_s,
        )

    def trials(self, job_id: str) -> list[Trial]:
        return list(self._entry(job_id).trials)

    def scored(self, job_id: str) -> dict[int, list[Scored]]:
        """By trial number, every replay that a verdict may rest on."""
        found = self._entry(job_id).scored
        return {number: list(replays) for number, replays in sorted(found.items())}

    def spend(self, job_id: str, windows: Sequence[str]) -> None:
        entry = self._open_entry(job_id)
        spent = set(entry.job.spent_windows)
        for window in windows:
            if window in spent:
                raise LedgerError(f"job {job_id}: window {window!r} is spent already")
            spent.add(window)
        entry.job = replace(entry.job, spent_windows=frozenset(spent))

    def store_advice(self, job_id: str, advice: Advice) -> None:
        entry = self._open_entry(job_id)
        entry.advice = advice
        entry.job = replace(entry.job, state="done")

    def advice(self, job_id: str) -> Advice | None:
        return self._entry(job_id).advice

    def replays(self, job_id: str, number: int) -> list[Replay]:
        """For a test to look at; whole, where the database's are without traces."""
        return list(self._entry(job_id).replays[number])

    def _entry(self, job_id: str) -> _Entry:
        if job_id not in self._entries:
            raise NotFound(f"job {job_id!r} is not in the ledger")
        return self._entries[job_id]

    def _open_entry(self, job_id: str) -> _Entry:
        entry = self._entry(job_id)
        if entry.job.state != "open":
            raise LedgerError(f"job {job_id} is done; nothing more is written to it")
        return entry

    def _running(self, job_id: str, number: int) -> _Entry:
        entry = self._open_entry(job_id)
        if not 0 <= number < len(entry.trials):
            raise NotFound(f"job {job_id} has no trial {number}")
        if entry.trials[number].result.state is not TrialState.RUNNING:
            raise LedgerError(f"job {job_id} trial {number} is closed already")
        return entry


def _scored(replay: Replay) -> Scored:
    plan = replay.plan
    return Scored(plan.window.name, plan.multiple, curves(replay.traces), replay.facts)
