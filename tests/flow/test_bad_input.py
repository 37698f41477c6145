"""Bad input by the real command; every case also runs inside one process, in the unit tests."""

from pathlib import Path

import pytest

from tests.flow.bad_input import CASES, Case, prepare_files, recommend, snapshot
from tests.flow.command import Advisor, refused

#: One of each door through which an error leaves the program.
QUICK = {"malformed row", "too short to decide", "missing vllm", "newer schema", "unknown option"}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in QUICK else [pytest.mark.slow])
        for case in CASES
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(case: Case, bad: Advisor) -> None:
    before = snapshot(bad.home)
    refused(bad(*case.words), *case.named)
    assert snapshot(bad.home) == before


def test_a_program_that_is_not_vllm_opens_no_job(bad: Advisor) -> None:
    """Asked under the machine's lock, whose empty file stays: no case of those above."""
    case = recommend("not vllm", engine="vllm", hardware=None, vllm_command="/bin/true")
    refused(bad(*case.words), "--vllm-command '/bin/true'", "expected the vllm executable")
    assert not (bad.home / "ledger.db").exists()


@pytest.fixture(name="bad", scope="module")
def _bad(tmp_path_factory: pytest.TempPathFactory) -> Advisor:
    home = Path(tmp_path_factory.mktemp("bad"))
    prepare_files(home)
    return Advisor(home)
