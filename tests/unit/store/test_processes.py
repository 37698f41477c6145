"""The ledger among other processes: living, writing, killed."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.terms.errors import LeaseLost, LedgerError
from advisor.terms.job import Phase
from advisor.terms.outcome import TrialState
from tests.contract import examples
from tests.unit.store.conftest import Clock, Open

_ROOT = Path(__file__).parents[3]

_HOLDS_THE_LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("COMMIT")
"""


_WRITES = """
import sys
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import Phase
from tests.contract import examples

ledger = SqlLedger(sys.argv[1], owner=Owner.this_process())
job = ledger.open_job(examples.SPEC, examples.ENGINE)
print(job.id, flush=True)
while True:
    number = ledger.open_trial(job.id, Phase.SEARCH, examples.PROPOSAL)
    ledger.add_replay(job.id, number, examples.replay())
    ledger.close_trial(job.id, number, examples.measured())
    print(number, flush=True)
"""


def start_writer(url: str) -> subprocess.Popen[str]:
    """A process that prints its job's id, then each trial's number once it is closed."""
    words = [sys.executable, "-c", _WRITES, url]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=_ROOT)


def hold_lock(url: str, seconds: float) -> subprocess.Popen[str]:
    """Another process that has the write lock when this returns."""
    path = url.removeprefix("sqlite:///")
    words = [sys.executable, "-c", _HOLDS_THE_LOCK, path, str(seconds)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    return child


def test_a_living_owner_keeps_its_job_whatever_the_lease_says(
    open_ledger: Open, url: str, clock: Clock
) -> None:
    with start_writer(url) as child:
        try:
            assert child.stdout is not None
            job_id = child.stdout.readline().strip()
            child.stdout.readline()
            clock.pass_s(10 * 365 * 86_400)
            with pytest.raises(LeaseLost, match=f"worked on by pid {child.pid} on "):
                open_ledger().claim(job_id)
        finally:
            child.kill()


def test_a_write_waits_for_another_process(open_ledger: Open, url: str) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    with hold_lock(url, 1.0):
        assert ledger.trials(job_id)[0].result.state is TrialState.RUNNING
        ledger.close_trial(job_id, number, examples.measured())
    assert ledger.trials(job_id)[0].result == examples.measured()


def test_a_lock_held_for_too_long_is_an_error_of_one_line(open_ledger: Open, url: str) -> None:
    ledger = open_ledger(busy_timeout_ms=50)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    with hold_lock(url, 60) as child:
        with pytest.raises(LedgerError, match="database is locked; another process") as caught:
            ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
        child.kill()
    assert "\n" not in str(caught.value)
    assert ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL) == 0


def test_a_killed_writer_leaves_every_closed_trial(open_ledger: Open, url: str) -> None:
    with start_writer(url) as child:
        assert child.stdout is not None
        job_id = child.stdout.readline().strip()
        printed = [child.stdout.readline() for _ in range(5)]
        child.kill()
        printed += child.stdout.readlines()
    told = [int(line) for line in printed if line.endswith("\n")]
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    ledger = open_ledger()
    ledger.claim(job_id)
    trials = ledger.trials(job_id)
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert len(trials) >= len(told) >= 5
    for trial in trials[: len(told)]:
        assert trial.result == examples.measured()
        assert trial.replays == 1
        (replay,) = ledger.replays(job_id, trial.number)
        examples.assert_same(ledger.traces(replay.id), examples.traces())
    assert TrialState.RUNNING not in {trial.result.state for trial in trials}
