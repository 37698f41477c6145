"""The soak in its short form, and that its bookkeeping sees what it is there to see."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from advisor.store.serde import dump
from advisor.terms.job import TrialResult
from advisor.terms.outcome import Failure, Reason, TrialState
from tests.faults.bookkeeping import Row, doubled, lost
from tests.faults.decoys import decoys, touched
from tests.faults.jobs import ROOT

MEASURED = Row("job", 0, "search", "key", None, None, "measured", "{}", "1.2.aa")


def failed(reason: Reason) -> Row:
    result = TrialResult(TrialState.FAILED, Failure(reason, "so", "ready"))
    return replace(MEASURED, state="failed", result=json.dumps(dump(TrialResult, result)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_short_soak_leaves_nothing_and_loses_nothing() -> None:
    argv = [sys.executable, str(ROOT / "tests" / "soak.py"), "10", "4"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    figures = json.loads(ended.stdout)
    assert figures["launches"] >= 10
    assert figures["faults"] > 0
    assert figures["kills"] > 0
    left = ("leaked_processes", "leaked_files", "ports_open", "locks_held")
    wrong = (*left, "foreign_touched", "trials_lost", "trials_doubled")
    assert [figures[name] for name in wrong] == [0] * 7


def test_a_launch_without_a_row_is_lost(tmp_path: Path) -> None:
    (tmp_path / "advisor-aa.log").touch()
    assert lost([MEASURED], [], tmp_path) == 0
    (tmp_path / "advisor-bb.log").touch()
    assert lost([MEASURED], [], tmp_path) == 1
    # a trial under way when its Advisor was killed is not marked yet
    assert lost([replace(MEASURED, token=None, state="interrupted")], [], tmp_path) == 2


def test_a_finished_trial_that_changed_is_lost(tmp_path: Path) -> None:
    assert lost([MEASURED], [MEASURED], tmp_path) == 0
    assert lost([], [MEASURED], tmp_path) == 1
    assert lost([replace(MEASURED, result='{"state": "failed"}')], [MEASURED], tmp_path) == 1
    running = replace(MEASURED, state="running", result=None)
    assert lost([replace(running, state="interrupted")], [running], tmp_path) == 0


def test_a_second_answer_is_one_too_many() -> None:
    again = replace(MEASURED, number=1, token="1.2.bb")
    assert doubled([MEASURED]) == 0
    assert doubled([MEASURED, again]) == 1
    assert doubled([MEASURED, replace(again, setting_key="other")]) == 0
    assert doubled([MEASURED, replace(again, token="1.2.aa", state="interrupted")]) == 1


@pytest.mark.parametrize(("reason", "allowed"), [(Reason.HUNG, 2), (Reason.MODEL_UNAVAILABLE, 1)])
def test_retries_are_no_second_answers(reason: Reason, allowed: int) -> None:
    attempts = [
        replace(failed(reason), number=number, token=f"1.2.{number}") for number in range(4)
    ]
    assert doubled(attempts[:allowed]) == 0
    assert doubled(attempts[: allowed + 1]) == 1
    then_measured = replace(MEASURED, number=1, token="1.2.1")
    assert doubled([attempts[0], then_measured]) == (0 if allowed == 2 else 1)


def test_a_decoy_that_was_touched_is_seen(tmp_path: Path) -> None:
    with decoys(tmp_path) as others:
        assert len(others) == 3
        assert touched(others) == 0
        others[0].suspend()
        while others[0].status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)  # a signal takes effect when its process next runs
        others[1].kill()
        others[1].wait(20)
        assert touched(others) == 2
