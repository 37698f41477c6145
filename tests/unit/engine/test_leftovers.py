"""What a killed Advisor left is ended, and nothing else is touched."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from advisor.engine import process as process_module
from advisor.engine.leftovers import (
    end_leftovers,
    find_leftovers,
    launch_folder,
    owner_lives,
)
from advisor.engine.process import new_token
from advisor.terms.errors import EngineError

#: no such process: pids end at 2**22
DEAD = "999999999.1.abc"
SLEEP = "import time; time.sleep(60)"


MARK = "ADVISOR_TEST_LEFTOVERS"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From everything that runs beside these tests, and would end what they left first."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process_module, "TOKEN_VARIABLE", MARK)


@pytest.fixture(name="spawned")
def _spawned() -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for process in found:
        process.kill()
        process.wait()


def spawn(found: list[subprocess.Popen[bytes]], token: str | None) -> subprocess.Popen[bytes]:
    marks = {} if token is None else {MARK: token}
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEP], env={**os.environ, **marks}, start_new_session=True
    )
    found.append(process)
    return process


def test_a_process_of_a_dead_owner_is_ended_in_whatever_session_it_is(
    spawned: list[subprocess.Popen[bytes]],
) -> None:
    orphan = spawn(spawned, DEAD)
    found = end_leftovers()
    assert (orphan.pid, DEAD) in found.processes
    assert orphan.wait(timeout=5) == -signal.SIGKILL
    assert DEAD not in find_leftovers().tokens


def test_nobody_else_is_touched(spawned: list[subprocess.Popen[bytes]]) -> None:
    others = [spawn(spawned, token) for token in (None, new_token(), "no token of ours", "")]
    end_leftovers()
    assert [other.poll() for other in others] == [None] * 4


def test_a_later_process_with_the_owners_pid_is_not_the_owner() -> None:
    me = psutil.Process()
    assert owner_lives(f"{me.pid}.{int(me.create_time())}.ab")
    assert not owner_lives(f"{me.pid}.{int(me.create_time()) - 3600}.ab")


def test_a_launch_has_a_folder_of_its_own_and_it_goes_with_the_launch(tmp_path: Path) -> None:
    token = new_token()
    with launch_folder(token) as folder:
        assert folder == tmp_path / f"advisor-{token}"
        (folder / "socket").touch()
        assert find_leftovers().folders == ()
    assert not folder.exists()


def test_folders_of_dead_owners_are_removed_and_no_others(tmp_path: Path) -> None:
    with launch_folder(new_token()) as kept:
        left = tmp_path / f"advisor-{DEAD}"
        shutil.copytree(kept, left)
        foreign = tmp_path / "advisor-999999999.1.def"
        foreign.mkdir()  # looks like one, and was made by nobody of ours
        elsewhere = tmp_path / "advisor-999999999.1.aaa"
        elsewhere.mkdir()
        (elsewhere / ".pid-namespace").write_text("pid:[1]")
        link = tmp_path / "advisor-999999999.1.bbb"
        link.symlink_to(kept)
        assert end_leftovers().folders == (left,)
        assert not left.exists()
        assert all(path.exists() for path in (kept, foreign, elsewhere, link))


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with (
        pytest.raises(EngineError, match="cannot be made for temp"),
        launch_folder("x"),
    ):
        pytest.fail("it was made")
