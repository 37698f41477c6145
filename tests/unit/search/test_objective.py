"""What a trial's measurement becomes for the sampler."""

import math

import pytest

from advisor.search.objective import WORST_EXCESS, bounded, excess, excesses_at, headroom_estimate
from advisor.terms.job import TrialResult
from advisor.terms.measurement import Headroom, Judgement, Measurement
from advisor.terms.outcome import TrialState
from advisor.terms.target import Verdict, parse_target


def judged(target: str, estimate: float | None) -> Judgement:
    return Judgement(
        parse_target(target), Verdict.UNDECIDED, estimate, None, None, None, None, None, 9, 3, 0.95
    )


@pytest.mark.parametrize(
    ("target", "estimate", "expected"),
    [
        ("ttft:p95<=1000ms", 1500.0, 0.5),
        ("ttft:p95<=1s", 500.0, -0.5),
        ("itl:p99<=40ms", 40.0, 0.0),
        ("itl:p99<=40ms", math.inf, math.inf),
        ("itl:p99<=40ms", None, math.inf),
        ("errors<=0.1%", 0.3, 2.0),
        ("errors<=0%", 0.0, 0.0),
        ("errors<=0%", 0.01, math.inf),
    ],
)
def test_the_excess_is_relative_to_the_limit(
    target: str, estimate: float | None, expected: float
) -> None:
    assert excess(judged(target, estimate)) == pytest.approx(expected)


def test_the_excesses_are_those_at_the_jobs_load() -> None:
    def at(multiple: float, estimate: float) -> Measurement:
        judgements = (judged("ttft:p95<=1000ms", estimate), judged("errors<=0.1%", 0.0))
        return Measurement(multiple, (), judgements, 0.0, 0.0, 0.0, 0.0, 1, 1)

    result = TrialResult(TrialState.MEASURED, measurements=(at(0.5, 100.0), at(1.0, 2000.0)))
    assert list(excesses_at(1.0, 2)(result)) == [1.0, -1.0]
    # what was not measured at that load meets nothing
    assert list(excesses_at(2.0, 2)(result)) == [math.inf, math.inf]


def test_the_score_is_the_headroom_and_none_without_one() -> None:
    assert headroom_estimate(TrialResult(TrialState.MEASURED)) is None
    result = TrialResult(TrialState.MEASURED, headroom=Headroom(1.0, 1.2, 1.1))
    assert headroom_estimate(result) == 1.1


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e300])
def test_an_unusable_excess_is_the_worst_one(value: float) -> None:
    assert bounded(value) == WORST_EXCESS
    assert bounded(-math.inf) == -WORST_EXCESS
    assert bounded(0.25) == 0.25
