"""The ledger: the only truth about a job, on any database that SQLAlchemy speaks to."""

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from advisor.measure.codec import is_current
from advisor.measure.scored import Scored
from advisor.store import queries, rows
from advisor.store.database import BEGIN, BUSY_TIMEOUT_MS, open_database, translated
from advisor.store.lease import is_abandoned, refuse_held
from advisor.store.location import parse_url
from advisor.store.owner import Owner
from advisor.store.rows import Played, StoredReplay
from advisor.store.schema import CurvesRow, JobRow, ReplayRow, SpentWindowRow, TracesRow, TrialRow
from advisor.store.serde import (
    decode_curves,
    decode_traces,
    dump,
    encode_curves,
    encode_traces,
    load,
)
from advisor.store.stamp import stamp, utc_now
from advisor.terms.advice import Advice
from advisor.terms.errors import LeaseLost, LedgerError, NotFound
from advisor.terms.job import EngineInfo, Job, JobSpec, Phase, Proposal, Replay, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.target import Target
from advisor.terms.traces import Traces


class SqlLedger:
    """Implements `advisor.tune.ports.Ledger`; every call is one transaction.

    A job is written by its owner alone: each write checks that, renews the lease, and raises
    LeaseLost when another process has taken the job, LedgerError when the job is done or the
    database does not answer within its busy timeout. May be used from several threads.
    """

    def __init__(
        self,
        url: str,
        *,
        owner: Owner,
        lease_s: float = 30.0,
        create: bool = True,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Opens the database; where there is none it is created, or NotFound raised.

        Raises SchemaMismatch or LedgerError when it cannot be used, see `open_database`.
        """
        self._url = parse_url(url)
        self._engine = open_database(url, busy_timeout_ms, create=create)
        self._owner = owner
        self._lease = timedelta(seconds=lease_s)
        self._now = now

    def close(self) -> None:
        """Gives back every connection; jobs stay claimed."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open_job(self, spec: JobSpec, engine: EngineInfo) -> Job:
        """A new job that this process owns."""
        with self._write() as session:
            job_id = secrets.token_hex(4)
            while session.get(JobRow, job_id) is not None:
                job_id = secrets.token_hex(4)
            row = rows.job_row(job_id, spec, engine, stamp(self._now()))
            self._take(row)
            session.add(row)
            return rows.job_of(row, frozenset())

    def job(self, job_id: str) -> Job:
        with self._read() as session:
            return rows.job_of(queries.job(session, job_id), queries.spent(session, job_id))

    def jobs(self) -> list[Job]:
        """All of them, the newest first."""
        with self._read() as session:
            found = session.scalars(select(JobRow).order_by(JobRow.created_at.desc(), JobRow.id))
            return [rows.job_of(row, queries.spent(session, row.id)) for row in found]

    def claim(self, job_id: str) -> Job:
        """Become the owner of a job that no living process works on; a done one is only read.

        On this host it can be seen whether the owner lives; on another one its lease tells.
        Trials it left running are closed as interrupted, at the last moment it was seen alive.
        Raises NotFound, and LeaseLost that names the owner.
        """
        with self._write() as session:
            row = queries.job(session, job_id, locked=True)
            if row.state == rows.OPEN:
                refuse_held(row, self._owner, self._now())
                for trial in session.scalars(queries.unfinished(job_id)):
                    rows.close(trial, TrialResult(TrialState.INTERRUPTED), row.seen_at)
                self._take(row)
            return rows.job_of(row, queries.spent(session, job_id))

    def is_abandoned(self, job_id: str) -> bool:
        """Whether the job is open and no process works on it, as far as this host can see."""
        with self._read() as session:
            return is_abandoned(queries.job(session, job_id))

    def heartbeat(self, job_id: str) -> None:
        """Renew the lease, while nothing else is written."""
        with self._write() as session:
            self._owned(session, job_id)

    def release(self, job_id: str) -> None:
        """Let any process claim the job at once."""
        with self._write() as session:
            row = self._owned(session, job_id)
            row.owner = row.lease_until = None

    def resolve_targets(self, job_id: str, targets: Sequence[Target]) -> None:
        with self._write() as session:
            row = self._owned(session, job_id)
            row.targets = dump(tuple[Target, ...], tuple(targets))

    def open_trial(
        self,
        job_id: str,
        phase: Phase,
        proposal: Proposal,
        round_: int | None = None,
        repeat: int | None = None,
    ) -> int:
        """Write the trial as running, before its launch; numbers are dense from 0."""
        with self._write() as session:
            self._owned(session, job_id)
            last = session.scalar(
                select(func.max(TrialRow.number)).where(TrialRow.job_id == job_id)
            )
            number = 0 if last is None else last + 1
            row = rows.trial_row(job_id, number, phase, proposal, stamp(self._now()))
            row.round, row.repeat = round_, repeat
            session.add(row)
            return number

    def mark(self, job_id: str, number: int, token: str) -> None:
        """Write by which token the processes of a running trial can be found."""
        with self._write() as session:
            self._owned(session, job_id)
            queries.running(session, job_id, number).token = token

    def add_replay(self, job_id: str, number: int, replay: Replay) -> None:
        """Store a replay with its raw traces and its curves, whatever its outcome.

        Raises LedgerError for traces that contradict themselves.
        """
        # made before the database is locked, side by side: packing lets Python's lock go
        with ThreadPoolExecutor(1) as thread:
            packed = thread.submit(encode_traces, replay.traces)
            summary = encode_curves(replay.traces)
            traces = packed.result()
        with self._write() as session:
            self._owned(session, job_id)
            trial = queries.running(session, job_id, number)
            ordinal = session.scalar(
                select(func.count()).select_from(ReplayRow).where(ReplayRow.trial_id == trial.id)
            )
            row = rows.replay_row(trial.id, ordinal or 0, replay)
            session.add(row)
            session.flush()
            session.add(TracesRow(replay_id=row.id, data=traces))
            session.add(CurvesRow(replay_id=row.id, data=summary))

    def close_trial(self, job_id: str, number: int, result: TrialResult) -> None:
        """Write how a running trial ended. Raises LedgerError when it is closed already."""
        if result.state is TrialState.RUNNING:
            raise LedgerError(f"job {job_id} trial {number}: cannot be closed as running")
        with self._write() as session:
            self._owned(session, job_id)
            rows.close(queries.running(session, job_id, number), result, stamp(self._now()))

    def trials(self, job_id: str) -> list[Trial]:
        """In order of their numbers, running and interrupted ones too."""
        with self._read() as session:
            queries.job(session, job_id)
            found = session.execute(queries.counted_trials(job_id))
            return [rows.trial_of(row, count) for row, count in found]

    def scored(self, job_id: str) -> dict[int, list[Scored]]:
        """By trial number, every replay that a verdict may rest on, in the order played."""
        found: dict[int, list[Scored]] = {}
        with self._read() as session:
            queries.job(session, job_id)
            for number, row, data in session.execute(queries.scored(job_id)):
                known = decode_curves(data if is_current(data) else _afresh(session, row.id))
                found.setdefault(number, []).append(rows.scored_of(row, known))
        return found

    def launches(self, tokens: Collection[str]) -> dict[str, str]:
        """Of the launch tokens that are in the ledger: the trial, as a person names it."""
        with self._read() as session:
            found = session.scalars(select(TrialRow).where(TrialRow.token.in_(tokens)))
            return {str(row.token): f"trial {row.number} of job {row.job_id}" for row in found}

    def played(self, job_id: str) -> dict[int, list[Played]]:
        """By trial number, how well every replay was played, void ones too."""
        with self._read() as session:
            found = session.execute(queries.played(job_id))
            return rows.played_by_trial((number, row) for number, row in found)

    def replays(self, job_id: str, number: int) -> list[StoredReplay]:
        """Of one trial, in the order they were played. Raises NotFound for the trial."""
        with self._read() as session:
            trial = queries.trial(session, job_id, number)
            return [rows.replay_of(*row) for row in session.execute(queries.replays(trial.id))]

    def traces(self, replay_id: int) -> Traces:
        """The raw traces of `StoredReplay.id`. Raises NotFound."""
        with self._read() as session:
            row = session.get(TracesRow, replay_id)
            if row is None:
                raise NotFound(f"replay {replay_id} is not in the ledger")
            return decode_traces(row.data)

    def spend(self, job_id: str, windows: Sequence[str]) -> None:
        """Mark held-out windows as used, all or none. Raises LedgerError for a used one."""
        with self._write() as session:
            self._owned(session, job_id)
            spent = set(queries.spent(session, job_id))
            for window in windows:
                if window in spent:
                    raise LedgerError(f"job {job_id}: window {window!r} is spent already")
                spent.add(window)
                at = stamp(self._now())
                session.add(SpentWindowRow(job_id=job_id, window=window, spent_at=at))

    def store_advice(self, job_id: str, advice: Advice) -> None:
        """Ends the job: nothing more is written to it, and nobody owns it."""
        with self._write() as session:
            row = self._owned(session, job_id)
            row.advice = dump(Advice, advice)
            row.state = rows.DONE
            row.owner = row.lease_until = None

    def advice(self, job_id: str) -> Advice | None:
        """None while the job is open."""
        with self._read() as session:
            row = queries.job(session, job_id)
            return None if row.advice is None else load(Advice, row.advice)

    @contextmanager
    def _read(self) -> Iterator[Session]:
        with translated(self._url), Session(self._engine) as session, session.begin():
            yield session

    @contextmanager
    def _write(self) -> Iterator[Session]:
        writer = self._engine.execution_options(**{BEGIN: "IMMEDIATE"})
        with translated(self._url), Session(writer) as session, session.begin():
            yield session

    def _owned(self, session: Session, job_id: str) -> JobRow:
        """The job's row, locked, its lease renewed."""
        row = queries.job(session, job_id, locked=True)
        if row.state != rows.OPEN:
            raise LedgerError(f"job {job_id} is {row.state}; nothing more is written to it")
        if row.owner != self._owner.text:
            holder = "nobody" if row.owner is None else Owner.parse(row.owner)
            raise LeaseLost(f"job {job_id} belongs to {holder} now, not to {self._owner}")
        self._take(row)
        return row

    def _take(self, row: JobRow) -> None:
        now = self._now()
        row.owner, row.seen_at = self._owner.text, stamp(now)
        row.lease_until = stamp(now + self._lease)


def _afresh(session: Session, replay_id: int) -> bytes:
    """The curves of a replay that an older advisor stored in its own layout, from its traces."""
    return encode_curves(decode_traces(session.get_one(TracesRow, replay_id).data))
