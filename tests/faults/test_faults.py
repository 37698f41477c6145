"""Every fault of the stand-in through a whole job: reason, effect, retries, and nothing left."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.standin.faults import TABLE, Fault
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Trial
from advisor.terms.outcome import Reason, ReplayOutcome, TrialState
from advisor.terms.reasons import RULES
from advisor.terms.target import Metric, Verdict
from advisor.terms.traces import MISSING, RequestStatus
from tests.faults.expected import EXPECTED, Expected
from tests.faults.jobs import Ended, Place, run_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_no_fault_is_left_out() -> None:
    assert list(EXPECTED) == list(TABLE) == list(Fault)
    for fault, expected in EXPECTED.items():
        assert expected.reason is TABLE[fault].reason


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_job_with_a_fault_in_it(fault: Fault, place: Place) -> None:
    expected = EXPECTED[fault]
    ended = await run_job(replace(place, limits=expected.limits), fault)
    baseline, *tried = ended.trials
    assert baseline.result.state is TrialState.MEASURED, baseline.result
    ours = ended.with_fault(fault)
    assert len(ours) == expected.launches
    assert tried[: len(ours)] == ours, "retries come at once"
    for trial in ours:
        check(trial, expected)
        if expected.replays is not None:
            assert replays_of(ended, trial, place) == expected.replays
    check_the_rest(ended, expected)
    # every launch has its row, every row its launch
    assert len(list(place.logs.glob("*.log"))) == len(ended.trials)


async def test_what_was_measured_before_a_crash_is_kept(place: Place) -> None:
    ended = await run_job(place, "crash:40")
    (trial,) = ended.with_fault("crash:40")
    with SqlLedger(place.url, owner=Owner.this_process()) as ledger:
        (replay,) = ledger.replays(ended.job.id, trial.number)
        traces = ledger.traces(replay.id)
    assert replay.outcome is ReplayOutcome.UNDERPOWERED
    # at least twelve of the forty were the warm-up's
    assert np.count_nonzero(traces.sent_ns != MISSING) > 0
    assert 0 < np.count_nonzero(traces.status == RequestStatus.OK) <= 28


async def test_a_knob_that_was_ignored_is_told(place: Place) -> None:
    fault = "knob_ignored:max_num_seqs=9"
    ended = await run_job(place, fault)
    (trial,) = ended.with_fault(fault)
    assert trial.result.launch is not None
    assert trial.result.launch.ignored == ("max_num_seqs: asked 4, runs 9",)


async def test_a_crash_that_leaves_a_deaf_child(place: Place) -> None:
    """The parent is gone when its child, in another session, is looked for."""
    fault = "crash,own_session"
    ended = await run_job(place, fault)
    (trial,) = ended.with_fault(fault)
    assert trial.result.failure is not None
    assert trial.result.failure.reason is Reason.CRASHED_UNDER_LOAD


def replays_of(ended: Ended, trial: Trial, place: Place) -> tuple[ReplayOutcome, ...]:
    with SqlLedger(place.url, owner=Owner.this_process()) as ledger:
        return tuple(each.outcome for each in ledger.replays(ended.job.id, trial.number))


def check(trial: Trial, expected: Expected) -> None:
    result = trial.result
    assert result.state is expected.state, result
    if expected.reason is None:
        assert result.failure is None
        if expected.state is TrialState.FAILED:
            assert result.note  # it tells which replay was void, and why
            return
        (measured,) = result.measurements
        assert measured.error_rate >= expected.errors
        errors = next(j for j in measured.judgements if j.target.metric is Metric.ERRORS)
        assert (errors.verdict is Verdict.MISSED) == (expected.errors > 0)
        return
    assert result.failure is not None, result
    assert result.failure.reason is expected.reason, result.failure
    assert result.failure.message
    assert RULES[expected.reason].hint


def check_the_rest(ended: Ended, expected: Expected) -> None:
    """The setting without a fault is measured, or the job says what blocks it."""
    sound = ended.with_fault("none")
    if expected.goes_on:
        assert [trial.result.state for trial in sound] == [TrialState.MEASURED]
        assert ended.advice.outcome is AdviceOutcome.NOT_PROVEN
    else:
        assert sound == []
        assert ended.advice.outcome is AdviceOutcome.BLOCKED
        assert expected.reason is not None
        assert str(expected.reason) in ended.advice.reasons[0]
