"""Rows to nouns, and back."""

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.measure.curves import Curves
from advisor.measure.scored import Scored
from advisor.store.schema import JobRow, ReplayRow, TrialRow
from advisor.store.serde import dump, load
from advisor.store.stamp import parse_stamp
from advisor.terms.job import (
    EngineInfo,
    Job,
    JobSpec,
    Phase,
    Proposal,
    Replay,
    ServerFacts,
    Trial,
    TrialResult,
)
from advisor.terms.outcome import ReplayOutcome, TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.terms.traces import ClientAudit

OPEN = "open"
DONE = "done"


@dataclass(frozen=True, slots=True)
class StoredReplay:
    """One replay as the ledger has it, its traces left there."""

    #: asks `SqlLedger.traces`
    id: int
    #: from 0 within the trial
    ordinal: int
    plan: Plan
    outcome: ReplayOutcome
    note: str
    facts: ServerFacts
    audit: ClientAudit | None
    window_start_ns: int
    window_end_ns: int
    #: `serde.decode_curves` reads them
    curves: bytes


@dataclass(frozen=True, slots=True)
class Played:
    """How well one replay was played, void or not: nothing of what it measured."""

    window: str
    multiple: float
    outcome: ReplayOutcome
    note: str
    audit: ClientAudit | None


def job_row(job_id: str, spec: JobSpec, engine: EngineInfo, now: str) -> JobRow:
    """An open job without an owner."""
    return JobRow(
        id=job_id,
        spec=dump(JobSpec, spec),
        targets=dump(tuple[Target, ...], spec.targets),
        engine=dump(EngineInfo, engine),
        state=OPEN,
        seen_at=now,
        created_at=now,
    )


def job_of(row: JobRow, spent: frozenset[str]) -> Job:
    return Job(
        id=row.id,
        spec=load(JobSpec, row.spec),
        targets=load(tuple[Target, ...], row.targets),
        engine=load(EngineInfo, row.engine),
        created_at=row.created_at,
        state=row.state,
        spent_windows=spent,
    )


def trial_row(job_id: str, number: int, phase: Phase, proposal: Proposal, now: str) -> TrialRow:
    """A running trial."""
    return TrialRow(
        job_id=job_id,
        number=number,
        phase=phase.value,
        setting=dump(Setting, proposal.setting),
        setting_key=proposal.setting.key,
        origin=proposal.origin,
        state=TrialState.RUNNING.value,
        opened_at=now,
    )


def trial_of(row: TrialRow, replays: int) -> Trial:
    running = TrialResult(TrialState.RUNNING)
    return Trial(
        number=row.number,
        phase=Phase(row.phase),
        setting=load(Setting, row.setting),
        origin=row.origin,
        result=running if row.result is None else load(TrialResult, row.result),
        round=row.round,
        repeat=row.repeat,
        replays=replays,
        elapsed_s=_elapsed_s(row),
        token=row.token,
        ended_s=None if row.closed_at is None else parse_stamp(row.closed_at).timestamp(),
    )


def close(row: TrialRow, result: TrialResult, now: str) -> None:
    row.result = dump(TrialResult, result)
    row.state = result.state.value
    # a clock set back in between must not give a trial a negative length
    row.closed_at = max(now, row.opened_at)


def replay_row(trial_id: int, ordinal: int, replay: Replay) -> ReplayRow:
    plan, traces = replay.plan, replay.traces
    return ReplayRow(
        trial_id=trial_id,
        ordinal=ordinal,
        window=plan.window.name,
        multiple=plan.multiple,
        salt=str(plan.salt),
        outcome=replay.outcome.value,
        note=replay.note,
        plan=dump(Plan, plan),
        facts=dump(ServerFacts, replay.facts),
        audit=None if traces.audit is None else dump(ClientAudit, traces.audit),
        window_start_ns=traces.window_start_ns,
        window_end_ns=traces.window_end_ns,
    )


def replay_of(row: ReplayRow, curves: bytes) -> StoredReplay:
    return StoredReplay(
        id=row.id,
        ordinal=row.ordinal,
        plan=load(Plan, row.plan),
        outcome=ReplayOutcome(row.outcome),
        note=row.note,
        facts=load(ServerFacts, row.facts),
        audit=None if row.audit is None else load(ClientAudit, row.audit),
        window_start_ns=row.window_start_ns,
        window_end_ns=row.window_end_ns,
        curves=curves,
    )


def scored_of(row: ReplayRow, curves: Curves) -> Scored:
    return Scored(row.window, row.multiple, curves, load(ServerFacts, row.facts))


def played_by_trial(found: Iterable[tuple[int, ReplayRow]]) -> dict[int, list[Played]]:
    played: dict[int, list[Played]] = {}
    for number, row in found:
        audit = None if row.audit is None else load(ClientAudit, row.audit)
        outcome = ReplayOutcome(row.outcome)
        one = Played(row.window, row.multiple, outcome, row.note, audit)
        played.setdefault(number, []).append(one)
    return played


def _elapsed_s(row: TrialRow) -> float | None:
    if row.closed_at is None:
        return None
    return (parse_stamp(row.closed_at) - parse_stamp(row.opened_at)).total_seconds()
