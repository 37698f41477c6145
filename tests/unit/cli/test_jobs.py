"""What is told of a job whose Advisor was killed; nothing is written."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.cli import run
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import Phase
from tests.contract import examples
from tests.flow.jobs import dump

US = Owner.this_process()
GONE = replace(US, started_s=0.0)


def begun(db: Path, owner: Owner) -> str:
    """A job with a trial in flight."""
    with SqlLedger(f"sqlite:///{db}", owner=owner) as ledger:
        job = ledger.open_job(examples.SPEC, examples.ENGINE).id
        ledger.open_trial(job, Phase.SEARCH, examples.PROPOSAL)
        return job


@pytest.mark.parametrize(
    ("owner", "state", "nobody"), [(GONE, "interrupted", True), (US, "running", False)]
)
def test_a_job_that_nobody_works_on_says_so(
    owner: Owner, state: str, nobody: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "ledger.db"
    job = begun(db, owner)
    before = dump(db)

    def said(*words: str) -> str:
        assert run([*words, "--db", f"sqlite:///{db}"]) == 0
        return " ".join(capsys.readouterr().out.split())

    def told(*words: str) -> Any:
        return json.loads(said(*words, "--json"))

    assert told("trials", job)["trials"][0]["state"] == state
    assert state in said("trials", job)
    assert told("jobs")["jobs"][0]["abandoned"] is nobody
    assert told("jobs")["jobs"][0]["state"] == "open"
    assert ("nobody works on it" in said("jobs")) is nobody
    assert told("show", job)["abandoned"] is nobody
    shown = said("show", job)
    assert f"go on with: advisor recommend --resume {job}" in shown
    assert ("nobody works on it" in shown) is nobody
    assert dump(db) == before
