"""Where the database is, and whether it could be used, without touching anything."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_data_dir
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from advisor.terms.errors import LedgerError

#: Names the database when the command line does not.
ENVIRONMENT = "ADVISOR_DB"


def default_url(environ: Mapping[str, str] = os.environ) -> str:
    """`ADVISOR_DB` where it is set, else `advisor.db` in the user's data directory."""
    return environ.get(ENVIRONMENT) or f"sqlite:///{_default_path()}"


def parse_url(url: str) -> URL:
    """Raises LedgerError for what is no database URL, and for a SQLite that keeps nothing."""
    expected = "expected e.g. sqlite:///advisor.db"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as exc:
        raise LedgerError(f"db: {url!r} is not a database URL; {expected}") from exc
    if parsed.get_backend_name() != "sqlite":
        return parsed
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise LedgerError(f"db: {parsed.drivername} is not supported; {expected}")
    if parsed.host:
        raise LedgerError(f"db: {url!r} names a host; {expected}, with three slashes or four")
    database = parsed.database or ""
    if database in ("", ":memory:") or database.startswith("file:"):
        raise LedgerError(f"db: {url!r} names no file to keep; {expected}")
    if parsed.query:
        raise LedgerError(f"db: {url!r} has options; {expected}, without any")
    return parsed


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite URL, None for another database."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def probe_path(path: Path) -> None:
    """Raises LedgerError when a SQLite file could not be opened or made there; makes nothing."""
    if path.is_dir():
        raise LedgerError(f"db: {path} is a directory, expected a file")
    parent = _existing_parent(path)
    try:
        # SQLite keeps -wal and -shm beside the file, so the directory must take new files;
        # this one has no name where the system allows that, and is gone in any case
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as exc:
        raise LedgerError(f"db: cannot write in {parent}: {exc.strerror}") from exc
    # not by opening it: closing would drop the locks this process may hold on it through SQLite
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise LedgerError(f"db: {path} cannot be written")


def make_default_directory(path: Path) -> None:
    """The user's data directory is made for them; any other one must be there already."""
    if path == _default_path():
        path.parent.mkdir(parents=True, exist_ok=True)


def _default_path() -> Path:
    return Path(user_data_dir("advisor", appauthor=False)) / "advisor.db"


def _existing_parent(path: Path) -> Path:
    parent = path.absolute().parent
    if path == _default_path():
        while not parent.exists() and parent != parent.parent:
            parent = parent.parent
    if not parent.is_dir():
        raise LedgerError(f"db: {parent} is not a directory; make it first")
    return parent
