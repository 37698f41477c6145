import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.store.serde import decode_curves
from advisor.terms.errors import LeaseLost, LedgerError, NotFound
from advisor.terms.job import Phase
from advisor.terms.outcome import TrialState
from tests.contract import examples

Open = Callable[..., SqlLedger]

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


class Clock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_s(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="url")
def _url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(name="open_ledger")
def _open_ledger(url: str, clock: Clock) -> Iterator[Open]:
    opened: list[SqlLedger] = []

    def open_ledger(
        owner: Owner | None = None, lease_s: float = 30, busy_timeout_ms: int = 10_000
    ) -> SqlLedger:
        ledger = SqlLedger(
            url,
            owner=owner or Owner.this_process(),
            lease_s=lease_s,
            busy_timeout_ms=busy_timeout_ms,
            now=clock,
        )
        opened.append(ledger)
        return ledger

    yield open_ledger
    for ledger in opened:
        ledger.close()


ELSEWHERE = Owner("elsewhere/1", 4711, 0.0)
OTHER = Owner("other/1", 4712, 0.0)
DEAD = replace(Owner.this_process(), started_s=0.0)


def test_replays_read_back_without_traces_and_traces_when_asked(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    for ordinal in range(2):
        ledger.add_replay(job_id, number, examples.replay(ordinal))
    first, second = ledger.replays(job_id, number)
    expected = examples.replay(1)
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert (second.plan, second.facts) == (expected.plan, expected.facts)
    assert (second.outcome, second.note) == (expected.outcome, expected.note)
    assert second.audit == examples.AUDIT
    assert (second.window_start_ns, second.window_end_ns) == (10**9, 3 * 10**9)
    assert decode_curves(second.curves).requests == 2
    examples.assert_same(ledger.traces(second.id), expected.traces)


def test_what_is_not_there_is_not_found(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    with pytest.raises(NotFound, match="no trial 0"):
        ledger.replays(job_id, 0)
    with pytest.raises(NotFound, match="replay 9 "):
        ledger.traces(9)
    for ask in (ledger.claim, ledger.heartbeat, ledger.release, ledger.advice):
        with pytest.raises(NotFound, match="'nowhere1'"):
            ask("nowhere1")


def test_jobs_are_listed_newest_first(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger()
    assert ledger.jobs() == []
    first = ledger.open_job(examples.SPEC, examples.ENGINE)
    clock.pass_s(1)
    second = ledger.open_job(examples.SPEC, examples.ENGINE)
    assert ledger.jobs() == [second, first]
    assert second.created_at == "2026-01-01T00:00:01.000000+00:00"


def test_advice_reads_back_and_its_job_belongs_to_nobody(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    assert ledger.advice(job_id) is None
    ledger.store_advice(job_id, examples.advice())
    assert ledger.advice(job_id) == examples.advice()
    assert open_ledger(OTHER).claim(job_id).state == "done"


def test_a_trial_lasts_from_its_opening_to_its_closing(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(90.5)
    ledger.close_trial(job_id, number, examples.measured())
    assert ledger.trials(job_id)[0].elapsed_s == 90.5


def test_a_clock_set_back_gives_no_negative_length(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(-5)
    ledger.close_trial(job_id, number, examples.measured())
    assert ledger.trials(job_id)[0].elapsed_s == 0


def test_a_refused_number_leaves_the_trial_running(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    bad = replace(examples.measured(), headroom=replace(examples.HEADROOM, estimate=float("nan")))
    with pytest.raises(LedgerError, match=r"headroom\.estimate is NaN"):
        ledger.close_trial(job_id, number, bad)
    assert ledger.trials(job_id)[0].result.state is TrialState.RUNNING


def test_a_dead_owners_job_is_claimed_at_once_and_its_trial_interrupted(
    open_ledger: Open, clock: Clock
) -> None:
    dead = open_ledger(DEAD)
    job_id = dead.open_job(examples.SPEC, examples.ENGINE).id
    dead.close_trial(
        job_id, dead.open_trial(job_id, Phase.BASELINE, examples.PROPOSAL), examples.measured()
    )
    dead.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(10)
    dead.heartbeat(job_id)
    clock.pass_s(3600)
    ledger = open_ledger()
    ledger.claim(job_id)
    first, second = ledger.trials(job_id)
    assert first.result == examples.measured()
    assert second.result.state is TrialState.INTERRUPTED
    assert second.elapsed_s == 10
    assert ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL) == 2


def test_a_living_owner_keeps_its_job_whatever_the_lease_says(
    open_ledger: Open, url: str, clock: Clock
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITES, url], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            job_id = child.stdout.readline().strip()
            child.stdout.readline()
            clock.pass_s(10 * 365 * 86_400)
            with pytest.raises(LeaseLost, match=f"worked on by pid {child.pid} on "):
                open_ledger().claim(job_id)
        finally:
            child.kill()


def test_a_job_of_another_host_is_claimed_after_its_lease(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger(ELSEWHERE, lease_s=30)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    other = open_ledger(OTHER)
    clock.pass_s(29)
    with pytest.raises(
        LeaseLost, match="leased to pid 4711 on elsewhere until 2026-01-01T00:00:30"
    ):
        other.claim(job_id)
    ledger.heartbeat(job_id)
    clock.pass_s(29)
    with pytest.raises(LeaseLost, match="until 2026-01-01T00:00:59"):
        other.claim(job_id)
    clock.pass_s(1)
    assert other.claim(job_id).id == job_id


def test_who_lost_a_job_writes_nothing_more(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger(ELSEWHERE)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(31)
    other = open_ledger(OTHER)
    other.claim(job_id)
    for write in (
        lambda: ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL),
        lambda: ledger.add_replay(job_id, number, examples.replay()),
        lambda: ledger.close_trial(job_id, number, examples.measured()),
        lambda: ledger.resolve_targets(job_id, examples.TARGETS),
        lambda: ledger.spend(job_id, ["held-out-0"]),
        lambda: ledger.store_advice(job_id, examples.advice()),
        lambda: ledger.heartbeat(job_id),
        lambda: ledger.release(job_id),
    ):
        with pytest.raises(LeaseLost, match="belongs to pid 4712 on other now, not to pid 4711"):
            write()
    (trial,) = other.trials(job_id)
    assert (trial.result.state, trial.replays) == (TrialState.INTERRUPTED, 0)


def test_an_expired_lease_that_nobody_took_still_holds(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger(ELSEWHERE)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    clock.pass_s(3600)
    assert ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL) == 0


def test_a_released_job_is_free_for_any_process(open_ledger: Open) -> None:
    ledger = open_ledger(ELSEWHERE)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    ledger.release(job_id)
    with pytest.raises(LeaseLost, match="belongs to nobody now"):
        ledger.heartbeat(job_id)
    other = open_ledger(OTHER)
    other.claim(job_id)
    other.heartbeat(job_id)


def test_claiming_ones_own_job_again_closes_what_it_left(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    ledger.claim(job_id)
    assert ledger.trials(job_id)[0].result.state is TrialState.INTERRUPTED


def hold_lock(url: str, seconds: float) -> subprocess.Popen[str]:
    """Another process that has the write lock when this returns."""
    path = url.removeprefix("sqlite:///")
    words = [sys.executable, "-c", _HOLDS_THE_LOCK, path, str(seconds)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    return child


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
    with subprocess.Popen(
        [sys.executable, "-c", _WRITES, url], stdout=subprocess.PIPE, text=True
    ) as child:
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
