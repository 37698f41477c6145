"""What counts as a gain, and everything that does not."""

import pytest

from advisor.advice.confirm import gain
from advisor.terms.measurement import Comparison
from advisor.terms.target import Metric, Verdict
from tests.unit.advice.examples import (
    MET,
    MISSED,
    UNDECIDED,
    arm,
    measurement,
    round_,
    setting,
)

OURS, THEIRS = setting(8), setting()
FASTER = Comparison(Metric.TTFT, 95.0, 0.6, 0.5, 0.7, 3)


def test_the_baseline_misses_at_the_load() -> None:
    found = gain(round_(arm(OURS, measurement(MET)), arm(THEIRS, measurement(MISSED))))
    assert found == "it meets the targets at the job's load, where the baseline misses them"


def test_the_baseline_misses_at_the_claim() -> None:
    ours = arm(OURS, measurement(MET), measurement(MET, 1.5))
    theirs = arm(THEIRS, measurement(MET), measurement(MISSED, 1.5))
    found = gain(round_(ours, theirs, 1.5))
    assert found == "it carries 1.5x the recorded load, where the baseline misses"


@pytest.mark.parametrize("ours", [UNDECIDED, MISSED])
def test_the_finalist_must_meet_the_targets_itself(ours: Verdict) -> None:
    finalist = arm(OURS, measurement(ours))
    assert gain(round_(finalist, arm(THEIRS, measurement(MISSED)), comparisons=[FASTER])) is None


def test_a_finalist_that_was_not_measured_or_once_failed_gains_nothing() -> None:
    theirs = arm(THEIRS, measurement(MISSED))
    assert gain(round_(arm(OURS), theirs)) is None
    assert gain(round_(arm(OURS, measurement(MET), failures=1), theirs)) is None
    assert gain(round_(None, theirs)) is None


@pytest.mark.parametrize(("ours", "theirs"), [(MET, MET), (MET, UNDECIDED), (UNDECIDED, MISSED)])
def test_a_claim_needs_our_hit_and_their_miss(ours: Verdict, theirs: Verdict) -> None:
    finalist = arm(OURS, measurement(MET), measurement(ours, 1.5))
    base = arm(THEIRS, measurement(MET), measurement(theirs, 1.5))
    assert gain(round_(finalist, base, 1.5)) is None


def test_a_baseline_that_cannot_run_is_beaten_and_one_that_we_failed_is_not() -> None:
    ours = arm(OURS, measurement(MET), measurement(MET, 2.0))
    cannot = arm(THEIRS, failures=3, cannot_run=True)
    assert gain(round_(ours, cannot, 2.0)) == (
        "it meets the targets at the job's load, where the baseline does not run"
    )
    assert gain(round_(ours, arm(THEIRS, failures=3), 2.0)) is None
    ends = arm(THEIRS, measurement(MET), failures=3, cannot_run=True)
    assert gain(round_(ours, ends, 2.0)) == (
        "it carries 2x the recorded load, where the baseline ends"
    )


def test_pairs_gain_only_on_a_target_that_the_baseline_does_not_meet() -> None:
    ours, unmet = arm(OURS, measurement(MET)), arm(THEIRS, measurement(UNDECIDED))
    assert gain(round_(ours, unmet, comparisons=[FASTER])) == (
        "TTFT p95 is 0.50 to 0.70 times the baseline's over 3 pairs, a target the baseline does "
        "not meet"
    )
    assert gain(round_(ours, arm(THEIRS, measurement(MET)), comparisons=[FASTER])) is None
    touching = Comparison(Metric.TTFT, 95.0, 0.8, 0.6, 1.0, 3)
    assert gain(round_(ours, unmet, comparisons=[touching])) is None


def test_pairs_on_another_percentile_of_the_same_metric_are_another_target() -> None:
    median = Comparison(Metric.TTFT, 50.0, 0.6, 0.5, 0.7, 3)
    unmet = arm(THEIRS, measurement(UNDECIDED))
    assert gain(round_(arm(OURS, measurement(MET)), unmet, comparisons=[median])) is None
