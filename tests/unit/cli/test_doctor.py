"""A killed Advisor: whoever comes next ends what it left, and says of which trial that was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from advisor.cli import run
from advisor.engine import process
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import Phase
from tests.contract import examples

#: as a killed Advisor's: no process has this pid, they end at 2**22
TOKEN = "999999999.1.abcd"


@pytest.mark.parametrize("in_ledger", [True, False])
def test_doctor_ends_and_names_it(
    in_ledger: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # by another name than all that runs beside this test, which would end it first
    monkeypatch.setattr(process, "TOKEN_VARIABLE", "ADVISOR_TEST_DOCTOR")
    job_id, db = "", f"sqlite:///{tmp_path / 'advisor.db'}"
    if in_ledger:
        with SqlLedger(db, owner=Owner.this_process()) as ledger:
            job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
            number = ledger.open_trial(job_id, Phase.BASELINE, examples.PROPOSAL)
            ledger.mark(job_id, number, TOKEN)
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={**os.environ, "ADVISOR_TEST_DOCTOR": TOKEN},
        start_new_session=True,
    )
    try:
        run(["doctor", "--vllm-command", "absent-vllm", "--json", "--db", db])
        assert orphan.wait(timeout=5) == -signal.SIGKILL
    finally:
        orphan.kill()
        orphan.wait()
    whose = f"trial 0 of job {job_id}" if in_ledger else "a launch whose Advisor was killed"
    assert json.loads(capsys.readouterr().out)["leftovers"] == [
        f"ended process {orphan.pid} of {whose}"
    ]
    assert not psutil.pid_exists(orphan.pid)
