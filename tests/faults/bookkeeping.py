"""Whether a ledger tells of every launch once: what is lost, and what is counted twice."""

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from advisor.store.serde import load
from advisor.terms.job import TrialResult
from advisor.terms.outcome import Failure, TrialState

_COLUMNS = "job_id, number, phase, setting_key, round, repeat, state, result, token"


@dataclass(frozen=True, slots=True)
class Row:
    """One trial as it stands in the database."""

    job: str
    number: int
    phase: str
    setting_key: str
    round: int | None
    repeat: int | None
    state: str
    result: str | None
    token: str | None

    @property
    def is_finished(self) -> bool:
        return self.state not in ("running", "interrupted")

    @property
    def thing(self) -> tuple[object, ...]:
        """What it was launched for."""
        return (self.job, self.phase, self.setting_key, self.round, self.repeat)


def read_rows(database: Path) -> list[Row]:
    """All trials of all jobs; none where there is no database yet."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute(f"SELECT {_COLUMNS} FROM trial ORDER BY job_id, number")
            return [Row(*values) for values in found]
        except sqlite3.OperationalError as exc:
            if "no such table" in str(exc):  # made, but not migrated yet
                return []
            raise


def lost(rows: list[Row], before: list[Row], logs: Path) -> int:
    """Launches without a row, and finished trials that are not as they were."""
    tokens = {row.token.rpartition(".")[2] for row in rows if row.token is not None}
    names = {path.stem.removeprefix("advisor-") for path in logs.glob("advisor-*.log")}
    known = {(row.job, row.number): row for row in rows}
    changed = [
        row for row in before if row.is_finished and known.get((row.job, row.number)) != row
    ]
    return len(names - tokens) + len(changed)


def doubled(rows: list[Row]) -> int:
    """Trials beyond the one answer and its allowed retries, and tokens of two trials."""
    attempts: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.is_finished:
            attempts[row.thing].append(row)
    tokens = Counter(row.token for row in rows if row.token is not None)
    twice = sum(count - 1 for count in tokens.values())
    return twice + sum(_too_many(each) for each in attempts.values())


def _too_many(attempts: list[Row]) -> int:
    """Launches of one thing after its answer, or after its last failure has had its retries."""
    for count, row in enumerate(attempts, 1):
        if row.state != TrialState.FAILED or count > _retries(row):
            return len(attempts) - count
    return 0


def _retries(row: Row) -> int:
    assert row.result is not None
    failure: Failure | None = load(TrialResult, json.loads(row.result)).failure
    # without a reason its replays were void, which is tried once more
    return 1 if failure is None else failure.rule.retries
