"""Jobs that take a second, and what their ledger says while and after they run."""

import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.flow.command import Advisor, Ended, finish

#: A baseline without a prefix cache, where two thirds of each prompt are shared.
SMALL_JOB = (
    *("recommend", "--engine", "sim", "--model", "llama-3.1-8b", "--hardware", "h100-sxm"),
    *("--profile", "small.jsonl", "--baseline", "--no-enable-prefix-caching"),
    *("--target", "ttft:p90<=0.6x", "--target", "itl:p90<=40ms"),
    *("--objective", "latency", "--launches", "4", "--seed", "3"),
)
#: The test's own time limit comes before the first.
_PATIENCE_S, _GLANCE_S = 600.0, 0.002


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that ran to its advice."""

    advisor: Advisor
    #: of `recommend --json`
    ended: Ended

    @property
    def advice(self) -> dict[str, Any]:
        return self.ended.object

    @property
    def job(self) -> str:
        return str(self.advice["job"])


@dataclass(frozen=True, slots=True)
class Row:
    """One trial as it stands in the database, bytes and all."""

    number: int
    phase: str
    setting_key: str
    round: int | None
    repeat: int | None
    state: str
    opened_at: str
    closed_at: str | None
    result: str | None
    replays: tuple[int, ...]

    @property
    def what(self) -> tuple[str, str, int | None, int | None]:
        """What it was launched for: no two finished trials of a job share it."""
        return (self.phase, self.setting_key, self.round, self.repeat)

    @property
    def is_finished(self) -> bool:
        return self.state not in ("running", "interrupted")


def rows(db: Path) -> list[Row]:
    """Every trial in a database with one job, none where there is no database yet."""
    found = []
    for row_id, *values in _query(db, _TRIALS):
        replays = tuple(replay for (replay,) in _query(db, _REPLAYS, row_id))
        columns = dict(zip(_COLUMNS, values, strict=True))
        found.append(Row(**columns, replays=replays))
    return found


_COLUMNS = tuple(name for name in Row.__annotations__ if name != "replays")
_TRIALS = f"SELECT id, {', '.join(_COLUMNS)} FROM trial ORDER BY number"
_REPLAYS = "SELECT id FROM replay WHERE trial_id = ? ORDER BY ordinal"


def job_ids(db: Path) -> list[str]:
    return [job for (job,) in _query(db, "SELECT id FROM job ORDER BY created_at")]


def _query(db: Path, query: str, *values: object) -> list[Any]:
    if not db.exists():
        return []
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as exc:
            if "no such table" in str(exc):  # made, but not migrated yet
                return []
            raise


def dump(db: Path) -> list[str]:
    """The whole database as SQL."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())


def await_trial(process: subprocess.Popen[str], db: Path, number: int) -> bool:
    """Until trial `number` stands in the database; False when the job ended before."""
    return _await(process, lambda: len(rows(db)) > number)


def await_job(process: subprocess.Popen[str], db: Path) -> bool:
    """Until the job stands in the database."""
    return _await(process, lambda: bool(job_ids(db)))


def _await(process: subprocess.Popen[str], holds: Any) -> bool:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not holds():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline_s, "the job does not get on"
        time.sleep(_GLANCE_S)
    return True


def kill(process: subprocess.Popen[str]) -> None:
    """As `kill -9` does: nothing of the process runs after it."""
    process.kill()
    finish(process)
