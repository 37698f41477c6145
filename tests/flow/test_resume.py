"""A job that is killed anywhere goes on where it was, as if nothing had happened."""

import re
import shlex
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from tests.flow.command import Advisor, Ended, finish, refused
from tests.flow.jobs import (
    SMALL_JOB,
    Finished,
    Row,
    await_job,
    await_trial,
    dump,
    job_ids,
    kill,
    rows,
)


def advice_of(ended: Ended, db: Path) -> dict[str, Any]:
    """Without the job's id, and with trials called by what they were launched for.

    A trial that is run again has another number: that alone may differ.
    """
    what = {str(row.number): row.what for row in rows(db)}
    body = {key: value for key, value in ended.object.items() if key != "job"}
    reasons = [re.sub(r"(?<=trial )\d+", lambda n: str(what[n[0]]), r) for r in body["reasons"]]
    return {**body, "reasons": reasons}


def assert_same_advice(ours: Ended, advisor: Advisor, undisturbed: Finished) -> None:
    assert ours.code == undisturbed.ended.code, ours
    assert advice_of(ours, advisor.db) == advice_of(undisturbed.ended, undisturbed.advisor.db)


def start(advisor: Advisor, *words: str) -> Any:
    return advisor.start(*words, "--json", "--db", advisor.url)


def resume(advisor: Advisor) -> tuple[str, ...]:
    (job,) = job_ids(advisor.db)
    return ("recommend", "--resume", job)


def assert_nothing_lost(before: list[Row], after: list[Row]) -> None:
    """What was finished at the kill stands there to the byte; what ran is interrupted."""
    assert after[: len(before)] == [
        row if row.is_finished else after[row.number] for row in before
    ]
    for row in before:
        if not row.is_finished:
            assert after[row.number].state == "interrupted"
            assert after[row.number].what == row.what
            assert after[row.number].replays[: len(row.replays)] == row.replays


def assert_as_undisturbed(advisor: Advisor, undisturbed: Finished) -> None:
    """The same launches in the same order, each finished once, within the same budget."""
    ours = [row.what for row in rows(advisor.db) if row.is_finished]
    theirs = [row.what for row in rows(undisturbed.advisor.db)]
    assert ours == theirs
    assert len(set(ours)) == len(ours)
    assert sum(phase != "confirm" for phase, *_ in ours) == 4


def go_on(advisor: Advisor, undisturbed: Finished, before: list[Row]) -> None:
    """Resume to the end, and compare all there is."""
    ended = advisor.on_db(*resume(advisor), "--json")
    assert "search: current setting" not in ended.err
    assert_same_advice(ended, advisor, undisturbed)
    assert_nothing_lost(before, rows(advisor.db))
    assert_as_undisturbed(advisor, undisturbed)


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.slow), 2, 6])
def test_killed_in_a_trial(advisor: Advisor, finished: Finished, number: int) -> None:
    """In the baseline's, in the search, and in the confirmation."""
    process = start(advisor, *SMALL_JOB)
    assert await_trial(process, advisor.db, number)
    kill(process)
    before = rows(advisor.db)
    assert len(before) > number
    go_on(advisor, finished, before)


@pytest.mark.slow
def test_killed_in_one_trial_after_another(advisor: Advisor, finished: Finished) -> None:
    """However often it dies, the budget counts in all."""
    process, killed = start(advisor, *SMALL_JOB), 0
    for _ in range(30):
        known = len(rows(advisor.db))
        if not await_trial(process, advisor.db, known + 1):
            break
        kill(process)
        killed += 1
        process = start(advisor, *resume(advisor))
    ended = finish(process)
    assert killed >= 3
    assert_same_advice(ended, advisor, finished)
    assert_as_undisturbed(advisor, finished)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_a_random_moment(
    advisor: Advisor, finished: Finished, job_s: float, seed: int
) -> None:
    """Anywhere between the job's first row and its end, between two rows too."""
    process = start(advisor, *SMALL_JOB)
    assert await_job(process, advisor.db)
    time.sleep(Random(seed).random() * job_s)
    kill(process)
    go_on(advisor, finished, rows(advisor.db))


@pytest.fixture(name="job_s", scope="module")
def _job_s(tmp_path_factory: pytest.TempPathFactory, finished: Finished) -> float:
    """How long the job takes here, from its first row to its end."""
    advisor = Advisor(finished.advisor.home, database=f"{tmp_path_factory.mktemp('timed')}/x.db")
    process = start(advisor, *SMALL_JOB)
    assert await_job(process, advisor.db)
    began_s = time.monotonic()
    assert finish(process).code == finished.ended.code
    return time.monotonic() - began_s


def test_a_finished_job_is_printed_and_launches_nothing(finished: Finished) -> None:
    advisor, before = finished.advisor, dump(finished.advisor.db)
    again = advisor.on_db("recommend", "--resume", finished.job, "--json")
    assert (again.code, again.object) == (finished.ended.code, finished.advice)
    assert dump(advisor.db) == before


def test_a_job_that_a_living_process_owns_is_left_alone(
    advisor: Advisor, finished: Finished
) -> None:
    process = start(advisor, *SMALL_JOB)
    assert await_trial(process, advisor.db, 1)
    kill(process)
    (job,) = job_ids(advisor.db)
    me = Owner.this_process()
    with SqlLedger(advisor.url, owner=me) as ledger:
        ledger.claim(job)
        before = dump(advisor.db)
        refused(advisor.on_db(*resume(advisor)), f"job {job}", f"pid {me.pid}", "end that process")
        assert dump(advisor.db) == before
        ledger.release(job)
    go_on(advisor, finished, rows(advisor.db))


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        (1, signal.SIGINT),
        pytest.param(6, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(2, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(2, signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_says_how_to_go_on(
    advisor: Advisor, finished: Finished, number: int, sent: signal.Signals
) -> None:
    process = start(advisor, *SMALL_JOB)
    assert await_trial(process, advisor.db, number)
    process.send_signal(sent)
    ended = finish(process)
    assert ended.code == 130, ended
    assert ended.out == ""
    (job,) = job_ids(advisor.db)
    *progress, last = ended.err.splitlines()
    said, _, command = last.partition("; go on with: ")
    assert said == "advisor: interrupted"
    assert shlex.split(command) == ["advisor", "recommend", "--resume", job, "--db", advisor.url]
    assert "Traceback" not in ended.err
    assert progress[0].startswith(f"job {job}")
    before = rows(advisor.db)
    assert before[-1].state == "interrupted"
    again = advisor(*shlex.split(command)[1:], "--json")
    assert_same_advice(again, advisor, finished)
    assert_nothing_lost(before, rows(advisor.db))
    assert_as_undisturbed(advisor, finished)


@pytest.mark.slow
def test_a_profile_that_changed_ends_the_resumed_job(advisor: Advisor) -> None:
    process = start(advisor, *SMALL_JOB)
    assert await_trial(process, advisor.db, 1)
    kill(process)
    profile = Path(advisor.home, "small.jsonl")
    lines = profile.read_text().splitlines(keepends=True)
    profile.write_text("".join(lines[:-1]))
    profile.with_suffix(".toml").write_text("block_tokens = 64\n")
    before = dump(advisor.db)
    refused(advisor.on_db(*resume(advisor)), "small.jsonl", "changed", "sha256")
    assert dump(advisor.db) == before
