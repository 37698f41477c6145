import json
import sqlite3
from pathlib import Path

import pytest

from advisor.cli import run
from advisor.store.database import check


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture(name="url")
def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_check_of_an_empty_database_says_what_to_do(
    url: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "check", "--db", url]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"run: advisor db upgrade --db {url}" in err
    assert not path.exists()


def test_upgrade_then_check(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "upgrade", "--db", url]) == 0
    assert run(["db", "check", "--db", url]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"{url}: schema {check(url).expected}"] * 2


def test_the_environment_names_the_database(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_DB", url)
    assert run(["db", "upgrade"]) == 0
    assert path.is_file()


def test_json_is_one_object_with_the_exit_code_beside_it(
    url: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "check", "--json", "--db", url]) == 2
    fresh = json.loads(capsys.readouterr().out)
    assert run(["db", "upgrade", "--db", url]) == 0
    assert run(["db", "check", "--json", "--db", url]) == 0
    current = json.loads(capsys.readouterr().out)
    assert (fresh["state"], fresh["found"]) == ("fresh", None)
    assert (current["state"], current["found"]) == ("current", current["expected"])


def test_a_newer_schema_is_refused(
    url: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "upgrade", "--db", url]) == 0
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE advisor_version SET version_num = '9999'")
    connection.close()
    capsys.readouterr()
    for command in ("check", "upgrade"):
        assert run(["db", command, "--db", url]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "has schema 9999" in err


@pytest.mark.parametrize("url", ["advisor.db", "sqlite:////absent/x.db", "sqlite:////proc/x.db"])
def test_an_unusable_database_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "upgrade", "--db", url]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
