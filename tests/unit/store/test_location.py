from pathlib import Path

import pytest

from advisor.store.location import default_url, parse_url, probe_path, sqlite_path
from advisor.terms.errors import LedgerError


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("advisor.db", "not a database URL; expected e.g. sqlite:///advisor.db"),
        ("", "not a database URL"),
        ("sqlite://", "names no file to keep"),
        ("sqlite:///:memory:", "names no file to keep"),
        ("sqlite:///file:x.db?uri=true", "names no file to keep"),
        ("sqlite://tmp/x.db", "names a host"),
        ("sqlite:///x.db?mode=ro", "has options"),
        ("postgresql://host:port/x", "not a database URL"),
    ],
)
def test_a_bad_url_is_refused_in_one_line(url: str, says: str) -> None:
    with pytest.raises(LedgerError, match=says) as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)


def test_the_file_of_a_url() -> None:
    assert sqlite_path(parse_url("sqlite:////a/b.db")) == Path("/a/b.db")
    assert sqlite_path(parse_url("sqlite:///b.db")) == Path("b.db")
    assert sqlite_path(parse_url("postgresql+psycopg://u:p@h/d")) is None


def test_the_environment_names_the_database() -> None:
    assert default_url({"ADVISOR_DB": "sqlite:///mine.db"}) == "sqlite:///mine.db"
    for environ in ({}, {"ADVISOR_DB": ""}):
        path = sqlite_path(parse_url(default_url(environ)))
        assert path is not None
        assert (path.parent.name, path.name) == ("advisor", "advisor.db")


def test_a_path_that_cannot_be_used_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    for path, says in (
        (tmp_path, "is a directory"),
        (tmp_path / "absent" / "x.db", "is not a directory; make it first"),
        (plain / "x.db", "is not a directory"),
        (Path("/proc/advisor.db"), "cannot write in /proc"),
    ):
        with pytest.raises(LedgerError, match=says):
            probe_path(path)
    assert list(tmp_path.iterdir()) == [plain]


def test_a_usable_path_is_left_alone(tmp_path: Path) -> None:
    probe_path(tmp_path / "x.db")
    assert list(tmp_path.iterdir()) == []


def test_only_the_users_own_data_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "data"))
    path = sqlite_path(parse_url(default_url({})))
    assert path is not None
    assert path.is_relative_to(tmp_path)
    probe_path(path)
    assert list(tmp_path.iterdir()) == []
