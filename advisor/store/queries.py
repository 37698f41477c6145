"""Reads of the ledger inside a session that is open already."""

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from advisor.store.schema import CurvesRow, JobRow, ReplayRow, SpentWindowRow, TrialRow
from advisor.terms.errors import LedgerError, NotFound
from advisor.terms.outcome import ReplayOutcome


def job(session: Session, job_id: str, *, locked: bool = False) -> JobRow:
    # the row lock is for databases that have them; SQLite has the write lock already
    row = session.get(JobRow, job_id, with_for_update=True if locked else None)
    if row is None:
        raise NotFound(f"job {job_id!r} is not in the ledger")
    return row


def trials(job_id: str) -> Select[TrialRow]:
    return select(TrialRow).where(TrialRow.job_id == job_id).order_by(TrialRow.number)


def unfinished(job_id: str) -> Select[TrialRow]:
    return trials(job_id).where(TrialRow.closed_at.is_(None))


def counted_trials(job_id: str) -> Select[TrialRow, int]:
    """Each trial with the number of its replays."""
    replays = select(func.count()).where(ReplayRow.trial_id == TrialRow.id).scalar_subquery()
    return trials(job_id).add_columns(replays)


def replays(trial_id: int) -> Select[ReplayRow, bytes]:
    """With their curves, in the order they were played."""
    return (
        select(ReplayRow, CurvesRow.data)
        .join(CurvesRow, CurvesRow.replay_id == ReplayRow.id)
        .where(ReplayRow.trial_id == trial_id)
        .order_by(ReplayRow.ordinal)
    )


def played(job_id: str) -> Select[int, ReplayRow]:
    """(trial number, replay) of all trials, in the order they were played."""
    return (
        select(TrialRow.number, ReplayRow)
        .join(ReplayRow, ReplayRow.trial_id == TrialRow.id)
        .where(TrialRow.job_id == job_id)
        .order_by(TrialRow.number, ReplayRow.ordinal)
    )


def scored(job_id: str) -> Select[int, ReplayRow, bytes]:
    """(trial number, replay, curves) of what a verdict may rest on."""
    outcomes = [outcome.value for outcome in ReplayOutcome if outcome.is_scored]
    return (
        select(TrialRow.number, ReplayRow, CurvesRow.data)
        .join(ReplayRow, ReplayRow.trial_id == TrialRow.id)
        .join(CurvesRow, CurvesRow.replay_id == ReplayRow.id)
        .where(TrialRow.job_id == job_id, ReplayRow.outcome.in_(outcomes))
        .order_by(TrialRow.number, ReplayRow.ordinal)
    )


def trial(session: Session, job_id: str, number: int) -> TrialRow:
    job(session, job_id)
    row = session.scalar(trials(job_id).where(TrialRow.number == number))
    if row is None:
        raise NotFound(f"job {job_id} has no trial {number}")
    return row


def running(session: Session, job_id: str, number: int) -> TrialRow:
    row = trial(session, job_id, number)
    if row.closed_at is not None:
        raise LedgerError(f"job {job_id} trial {number} is {row.state} already")
    return row


def spent(session: Session, job_id: str) -> frozenset[str]:
    windows = select(SpentWindowRow.window).where(SpentWindowRow.job_id == job_id)
    return frozenset(session.scalars(windows))
