"""Connections that are set up right, and the schema's age.

SQLite: write-ahead log, foreign keys on, and a busy timeout on every connection, each one read
back; transactions that write begin with the write lock (`BEGIN IMMEDIATE`), because one that
reads first and writes later fails at once when another process wrote between, whatever the
timeout (sqlite.org/isolation.html, SQLITE_BUSY_SNAPSHOT).
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from advisor.store.location import make_default_directory, parse_url, probe_path, sqlite_path
from advisor.store.schema import REVISION, TABLES
from advisor.terms.errors import LedgerError, NotFound, SchemaMismatch

#: Alembic's own default, `alembic_version`, is what Optuna's storage uses.
VERSION_TABLE = "advisor_version"
BUSY_TIMEOUT_MS = 10_000
#: Execution option of a connection: how SQLite transactions begin on it.
BEGIN = "sqlite_begin"


class SchemaAge(StrEnum):
    FRESH = "fresh"
    CURRENT = "current"
    OLDER = "older"
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """A database's revision beside this program's."""

    age: SchemaAge
    #: None in a fresh database
    found: str | None
    expected: str


def connect(url: str, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> Engine:
    """An engine whose every connection is set up and checked; does not look at the schema.

    Raises LedgerError for a bad URL or a missing driver; nothing is opened yet.
    """
    parsed = parse_url(url)
    options: dict[str, Any] = {"pool_pre_ping": True}
    if sqlite_path(parsed) is not None:
        # BEGIN is ours: the driver would begin before writes only, and never before DDL
        timeout_s = busy_timeout_ms / 1000
        options = {"connect_args": {"isolation_level": None, "timeout": timeout_s}}
    engine = _create_engine(parsed, **options)
    if sqlite_path(parsed) is not None:
        event.listen(engine, "connect", _SetUp(busy_timeout_ms))
        event.listen(engine, "begin", _begin)
    return engine


def check(url: str) -> SchemaState:
    """How the database's schema compares to this program's; creates nothing, not even a -wal.

    Raises LedgerError when it cannot be read or holds tables of the same names that are not ours.
    """
    parsed = parse_url(url)
    path = sqlite_path(parsed)
    if path is not None and not path.exists():
        return SchemaState(SchemaAge.FRESH, None, REVISION)
    engine = _create_engine(parsed) if path is None else _read_only_engine(path)
    try:
        with translated(parsed), engine.connect() as connection:
            found = _revision(connection)
    finally:
        engine.dispose()
    return SchemaState(_age(found), found, REVISION)


def probe(url: str) -> SchemaState:
    """Raises what `open_database` would, as far as it can be known without creating anything."""
    path = sqlite_path(parse_url(url))
    if path is not None:
        probe_path(path)
    state = check(url)
    refuse_unfit(url, state)
    return state


def open_database(
    url: str, busy_timeout_ms: int = BUSY_TIMEOUT_MS, *, create: bool = True
) -> Engine:
    """Connect to a database of the current schema; a fresh one is migrated first.

    Raises SchemaMismatch when it is older or newer, NotFound when it is fresh and shall not be
    created, LedgerError when it cannot be used.
    """
    if probe(url).age is SchemaAge.FRESH:
        if not create:
            raise NotFound(f"database {parse_url(url).render_as_string()} holds no jobs yet")
        upgrade(url, busy_timeout_ms)
    engine = connect(url, busy_timeout_ms)
    with translated(parse_url(url)), engine.connect():
        return engine


def refuse_unfit(url: str, state: SchemaState) -> None:
    """Raises SchemaMismatch, with what to do, unless the schema is fresh or current."""
    shown = parse_url(url).render_as_string()
    revisions = f"database {shown} has schema {state.found}, this program needs {state.expected}"
    if state.age is SchemaAge.OLDER:
        raise SchemaMismatch(f"{revisions}; run: advisor db upgrade --db {shown}")
    if state.age is SchemaAge.NEWER:
        raise SchemaMismatch(f"{revisions}; it was written by a newer advisor, install that one")


def upgrade(url: str, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
    """Bring the schema to this program's, in one transaction; a fresh database is created.

    Two processes may call it at once: the second waits and finds nothing to do.
    Raises SchemaMismatch when it is newer, LedgerError when it cannot be used.
    """
    parsed = parse_url(url)
    path = sqlite_path(parsed)
    if path is not None:
        make_default_directory(path)
        probe_path(path)
    state = check(url)
    if state.age is SchemaAge.NEWER:
        refuse_unfit(url, state)
    # late: Alembic takes longer to import than most commands take to run
    from advisor.store.migrate import migrate

    engine = connect(url, busy_timeout_ms)
    try:
        with translated(parsed), engine.connect() as connection:
            migrate(connection.execution_options(**{BEGIN: "IMMEDIATE"}))
    finally:
        engine.dispose()


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """The database's errors as ours, one line, without the password."""
    try:
        yield
    except DBAPIError as exc:
        text = str(exc.orig).splitlines()[0] if str(exc.orig) else type(exc.orig).__name__
        if "database is locked" in text:
            text += "; another process has been writing for longer than the busy timeout"
        raise LedgerError(f"database {url.render_as_string()}: {text}") from exc


class _SetUp:
    """Prepares a new SQLite connection; the settings hold for that one connection only."""

    def __init__(self, busy_timeout_ms: int) -> None:
        self._busy_timeout_ms = busy_timeout_ms

    def __call__(self, connection: sqlite3.Connection, _record: object) -> None:
        wanted = {
            "busy_timeout": self._busy_timeout_ms,
            "foreign_keys": 1,
            "journal_mode": "wal",
        }
        for name, value in wanted.items():
            self._apply(connection, f"PRAGMA {name}={value}")
            (found,) = connection.execute(f"PRAGMA {name}").fetchone()
            if found != value:
                raise LedgerError(f"db: SQLite refuses {name}={value} here, it stays {found}")

    def _apply(self, connection: sqlite3.Connection, pragma: str) -> None:
        deadline_s = time.monotonic() + self._busy_timeout_ms / 1000
        while True:
            try:
                connection.execute(pragma)
                return
            except sqlite3.OperationalError as exc:
                # the change to WAL fails at once, without the timeout, beside another one's
                if "locked" not in str(exc) or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.02)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(BEGIN, '')}")


def _create_engine(url: URL, **options: Any) -> Engine:
    try:
        return create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError, ArgumentError) as exc:
        shown = url.render_as_string()
        raise LedgerError(f"db: no driver for {shown}: {exc}; expected sqlite:///FILE") from exc


def _read_only_engine(path: Path) -> Engine:
    """Reads without leaving a -wal: none there means that no one writes, the file is all."""
    wal = path.with_name(path.name + "-wal")
    options = "mode=ro" if wal.exists() else "mode=ro&immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    return create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool
    )


def _revision(connection: Connection) -> str | None:
    """The revision that Alembic wrote there, None in a fresh database."""
    tables = set(inspect(connection).get_table_names())
    found = None
    if VERSION_TABLE in tables:
        written = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}")
        found = written.scalar_one_or_none()
    taken = sorted(TABLES & tables)
    if found is None and taken:
        raise LedgerError(f"db: table {taken[0]!r} there belongs to another program")
    return found


def _age(found: str | None) -> SchemaAge:
    if found is None:
        return SchemaAge.FRESH
    if found == REVISION:
        return SchemaAge.CURRENT
    from advisor.store.migrate import revisions

    return SchemaAge.OLDER if found in revisions() else SchemaAge.NEWER
