"""Bad input through the whole program, in this process; `tests/flow` does it by the command."""

from pathlib import Path

import pytest

from advisor.cli import run
from tests.flow.bad_input import CASES, Case, prepare_files, snapshot
from tests.flow.command import Ended, refused


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    prepare_files(folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_one_line_and_leaves_nothing(
    case: Case,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("ADVISOR_DB", raising=False)
    before = snapshot(folder)
    refused(Ended(run(list(case.words)), *capsys.readouterr()), *case.named)
    assert snapshot(folder) == before
