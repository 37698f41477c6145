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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("export x --format xml", "--format is 'xml'; expected one of 'parquet', 'csv', "),
        ("profile import foo bar", "FORMAT is 'foo'; expected one of 'azure', 'mooncake'\n"),
        ("recommend --launches 1.5", "--launches is '1.5'; expected a whole number\n"),
        ("simulate --seed -1", "--seed is '-1'; expected at least 0\n"),
        ("recommend --load ten", "--load is 'ten'; expected a number\n"),
        ("recommend --nonsense 1", "No such option: --nonsense"),
        ("export", "Missing argument 'JOB'"),
    ],
)
def test_a_word_of_another_kind_is_told_in_our_words(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(Ended(run(words.split()), *capsys.readouterr()), f"advisor: {said}")
