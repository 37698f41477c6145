"""What counts as a gain, and everything that does not."""

from dataclasses import replace

import pytest

from advisor.advice.confirm import Raised, better, control_gain, gain
from advisor.terms.job import Objective, Soak
from advisor.terms.measurement import Comparison, RateComparison
from advisor.terms.setting import Setting
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


def test_a_miss_gains_only_where_every_pair_of_launches_shows_it() -> None:
    """Else one lucky launch, or one unlucky one of the baseline, could make the difference."""
    ours = arm(OURS, measurement(MET), measurement(MET, 1.5))
    theirs = arm(THEIRS, measurement(MISSED), measurement(MISSED, 1.5))
    found = round_(ours, theirs, 1.5)
    neither = replace(found, apart_at_load=False, apart_at_claim=False)
    assert gain(neither) is None
    at_claim = "it carries 1.5x the recorded load, where the baseline misses"
    assert gain(replace(found, apart_at_load=False)) == at_claim
    at_load = "it meets the targets at the job's load, where the baseline misses them"
    assert gain(replace(found, apart_at_claim=False)) == at_load
    by_pairs = gain(replace(neither, comparisons=(FASTER,)))
    assert by_pairs is not None
    assert by_pairs.startswith("TTFT p95 is 0.50 to 0.70 times the baseline's over 3 pairs")


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
        "TTFT p95 is 0.50 to 0.70 times the baseline's over 3 pairs, a target that the "
        "baseline is not proven to meet"
    )
    assert gain(round_(ours, arm(THEIRS, measurement(MET)), comparisons=[FASTER])) is None
    touching = Comparison(Metric.TTFT, 95.0, 0.8, 0.6, 1.0, 3)
    assert gain(round_(ours, unmet, comparisons=[touching])) is None


def test_pairs_on_another_percentile_of_the_same_metric_are_another_target() -> None:
    median = Comparison(Metric.TTFT, 50.0, 0.6, 0.5, 0.7, 3)
    unmet = arm(THEIRS, measurement(UNDECIDED))
    assert gain(round_(arm(OURS, measurement(MET)), unmet, comparisons=[median])) is None


def test_only_who_survives_its_soak_gains() -> None:
    theirs = arm(THEIRS, measurement(MISSED))
    for soak in (Soak(9, trouble="died"), None):
        found = round_(arm(OURS, measurement(MET), soak=soak), theirs)
        assert gain(found) is None
        assert better(found) is not None


def raised(objective: Objective, lower: float, ratio: float = 1.2, upper: float = 1.5) -> Raised:
    return Raised(objective, RateComparison(ratio, lower, upper, 3))


RATES = [Objective.THROUGHPUT, Objective.GOODPUT]
COST = Raised(Objective.COST, None)


@pytest.mark.parametrize("objective", RATES)
def test_a_rate_gains_by_its_interval_within_the_targets(objective: Objective) -> None:
    ours, theirs = arm(OURS, measurement(MET)), arm(THEIRS, measurement(MET))
    won = replace(round_(ours, theirs), raised=raised(objective, 1.1))
    found = gain(won)
    assert found is not None
    assert found.endswith("over 3 pairs, within the targets")
    # less than a hundredth is no reason to change anything
    for lower in (0.9, 1.0, 1.01):
        assert gain(replace(won, raised=raised(objective, lower))) is None
    assert gain(replace(won, raised=Raised(objective, None))) is None
    missed = replace(won, finalist=arm(OURS, measurement(UNDECIDED)))
    assert gain(missed) is None


@pytest.mark.parametrize("objective", RATES)
def test_where_a_rate_is_raised_no_latency_gains(objective: Objective) -> None:
    ours, unmet = arm(OURS, measurement(MET)), arm(THEIRS, measurement(UNDECIDED))
    found = round_(ours, unmet, comparisons=[FASTER])
    assert gain(found) is not None
    assert gain(replace(found, raised=raised(objective, 0.9))) is None


@pytest.mark.parametrize("objective", RATES)
def test_a_baseline_that_misses_the_targets_is_beaten_whatever_is_raised(
    objective: Objective,
) -> None:
    found = round_(arm(OURS, measurement(MET)), arm(THEIRS, measurement(MISSED)))
    assert gain(replace(found, raised=raised(objective, 0.5))) == (
        "it meets the targets at the job's load, where the baseline misses them"
    )


def test_what_each_rate_says() -> None:
    ours, theirs = arm(OURS, measurement(MET)), arm(THEIRS, measurement(MET))
    said = [
        gain(replace(round_(ours, theirs), raised=raised(objective, 1.25))) for objective in RATES
    ]
    assert said == [
        "its output tokens/s are 1.25 to 1.50 times the baseline's over 3 pairs, within the "
        "targets",
        "its good requests/s are 1.25 to 1.50 times the baseline's over 3 pairs, within the "
        "targets",
    ]


def on_gpus(ours: int, theirs: int, claim: Verdict, at_theirs: Verdict) -> str | None:
    """The gain by cost of one that carries 2x or not, against the same load on each GPU."""
    settings = [Setting.of("m", {"tensor_parallel_size": size}) for size in (ours, theirs)]
    finalist = arm(settings[0], measurement(MET), measurement(claim, 2.0))
    base = arm(settings[1], measurement(MET), measurement(at_theirs, 2.0 * theirs / ours))
    return gain(replace(round_(finalist, base, 2.0), raised=COST))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (1, 1, "it carries 2x the recorded load, where the baseline misses"),
        (
            1,
            2,
            "it carries 2x the recorded load on 1 GPU, where the baseline misses at 4x on 2 GPUs",
        ),
        (
            4,
            2,
            "it carries 2x the recorded load on 4 GPUs, where the baseline misses at 1x on 2 GPUs",
        ),
    ],
)
def test_cheaper_is_who_carries_more_on_each_gpu(ours: int, theirs: int, said: str) -> None:
    assert on_gpus(ours, theirs, MET, MISSED) == said
    assert on_gpus(ours, theirs, MET, UNDECIDED) is None
    assert on_gpus(ours, theirs, UNDECIDED, MISSED) is None


def test_a_claim_of_the_jobs_load_alone_may_be_cheaper_on_fewer_gpus() -> None:
    one, two = (Setting.of("m", {"tensor_parallel_size": size}) for size in (1, 2))
    base = arm(two, measurement(MET), measurement(MISSED, 2.0))
    found = replace(round_(arm(one, measurement(MET)), base), raised=COST)
    assert gain(found) == (
        "it carries 1x the recorded load on 1 GPU, where the baseline misses at 2x on 2 GPUs"
    )
    assert gain(replace(found, baseline=arm(two, measurement(MET)))) is None


def test_no_latency_is_a_gain_of_cost() -> None:
    ours, unmet = arm(OURS, measurement(MET)), arm(THEIRS, measurement(UNDECIDED))
    found = replace(round_(ours, unmet, comparisons=[FASTER]), raised=COST)
    assert gain(found) is None


def test_a_control_that_gains_shows_that_no_gain_can_be_believed() -> None:
    base = arm(THEIRS, measurement(UNDECIDED))
    again = round_(arm(THEIRS, measurement(MET)), base, comparisons=[FASTER])
    won = round_(arm(OURS, measurement(MET)), base, comparisons=[FASTER])
    assert control_gain([won]) is None
    assert control_gain([replace(won, control=round_(arm(THEIRS), base))]) is None
    found = control_gain([won, replace(won, control=again)])
    assert found is not None
    assert found == gain(won)
