import multiprocessing
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from advisor.store.database import (
    SchemaAge,
    SchemaState,
    check,
    connect,
    open_database,
    probe,
    refuse_unfit,
    upgrade,
)
from advisor.store.location import default_url
from advisor.terms.errors import LedgerError, NotFound, SchemaMismatch


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "a b%c?#.db"


@pytest.fixture(name="url")
def _url(path: Path) -> str:
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


@pytest.fixture(name="plain_url")
def _plain_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(name="engine")
def _engine(plain_url: str) -> Iterator[Engine]:
    engine = open_database(plain_url)
    yield engine
    engine.dispose()


def write(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_pooled_connection_is_set_up(engine: Engine) -> None:
    connections = [engine.connect() for _ in range(8)]
    for connection in connections:
        read = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("foreign_keys", "journal_mode", "busy_timeout")
        }
        connection.close()
        assert read == {"foreign_keys": 1, "journal_mode": "wal", "busy_timeout": 10_000}


def test_a_transaction_holds_for_ddl_and_reads(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE passing (x)")
        connection.rollback()
        tables = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
    assert "passing" not in tables


def test_a_fresh_file_is_created_and_migrated(plain_url: str, tmp_path: Path) -> None:
    assert check(plain_url).age is SchemaAge.FRESH
    assert probe(plain_url).age is SchemaAge.FRESH
    assert list(tmp_path.iterdir()) == []
    open_database(plain_url).dispose()
    state = check(plain_url)
    assert (state.age, state.found) == (SchemaAge.CURRENT, state.expected)


def test_an_empty_file_is_fresh(plain_url: str, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    assert probe(plain_url).age is SchemaAge.FRESH
    open_database(plain_url).dispose()
    assert check(plain_url).age is SchemaAge.CURRENT


def test_nothing_is_created_where_only_reading_makes_sense(plain_url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no jobs yet"):
        open_database(plain_url, create=False)
    assert list(tmp_path.iterdir()) == []


def test_the_default_directory_is_made_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    url = default_url({})
    assert probe(url).age is SchemaAge.FRESH
    assert list(tmp_path.iterdir()) == []
    open_database(url).dispose()
    assert check(url).age is SchemaAge.CURRENT


def test_looking_changes_no_byte_and_leaves_no_file(
    engine: Engine, plain_url: str, tmp_path: Path
) -> None:
    engine.dispose()
    before = files(tmp_path)
    assert list(before) == ["ledger.db"]
    assert probe(plain_url).age is SchemaAge.CURRENT
    assert files(tmp_path) == before


def test_looking_beside_a_writer_sees_what_it_wrote(plain_url: str, tmp_path: Path) -> None:
    """The migration lies in the -wal alone while a connection is open."""
    engine = connect(plain_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE theirs (x)")
        connection.commit()
        assert connection.exec_driver_sql("SELECT * FROM theirs").all() == []
        upgrade(plain_url)
        assert (tmp_path / "ledger.db-wal").stat().st_size > 0
        assert check(plain_url).age is SchemaAge.CURRENT
    engine.dispose()


def test_odd_characters_in_a_path(url: str, path: Path) -> None:
    open_database(url).dispose()
    assert check(url).age is SchemaAge.CURRENT
    assert path.is_file()


def test_what_is_no_database_is_refused(plain_url: str, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("timestamp,tokens\n" * 100)
    for attempt in (check, probe, open_database, upgrade):
        with pytest.raises(LedgerError, match="file is not a database"):
            attempt(plain_url)


def test_another_programs_tables_are_left_alone(plain_url: str, tmp_path: Path) -> None:
    write(tmp_path / "ledger.db", "CREATE TABLE job (x)")
    for attempt in (check, probe, open_database, upgrade):
        with pytest.raises(LedgerError, match="table 'job' there belongs to another program"):
            attempt(plain_url)


def test_a_newer_schema_is_refused_with_both_revisions(engine: Engine, plain_url: str) -> None:
    engine.dispose()
    expected = check(plain_url).expected
    write(Path(plain_url.removeprefix("sqlite:///")), "UPDATE advisor_version SET version_num='9'")
    assert check(plain_url).age is SchemaAge.NEWER
    for attempt in (probe, open_database, upgrade):
        with pytest.raises(SchemaMismatch, match=f"has schema 9, this program needs {expected}"):
            attempt(plain_url)


def test_an_older_schema_says_how_to_upgrade(plain_url: str) -> None:
    state = SchemaState(SchemaAge.OLDER, "0000", "0001")
    with pytest.raises(SchemaMismatch) as caught:
        refuse_unfit(plain_url, state)
    assert str(caught.value) == (
        f"database {plain_url} has schema 0000, this program needs 0001; "
        f"run: advisor db upgrade --db {plain_url}"
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:////proc/advisor.db", "cannot write in /proc"),
        ("sqlite:////absent/advisor.db", "/absent is not a directory"),
        ("oracle9://u:secret@h/d", "no driver for oracle9://u:\\*\\*\\*@h/d"),
        ("sqlite+aiosqlite:///x.db", "expected e.g. sqlite:///advisor.db"),
    ],
)
def test_what_cannot_be_opened_is_one_clear_line(url: str, says: str) -> None:
    for attempt in (probe, open_database, upgrade):
        with pytest.raises(LedgerError, match=says) as caught:
            attempt(url)
        assert "\n" not in str(caught.value)


def test_processes_that_open_a_fresh_file_together_all_succeed(plain_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        ages = pool.map(_opened_age, [plain_url] * 3, chunksize=1)
    assert ages == ["current"] * 3


def _opened_age(url: str) -> str:
    open_database(url).dispose()
    return check(url).age.value
