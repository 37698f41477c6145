import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.headroom import MOST, headroom, worst_excess
from advisor.terms.measurement import Judgement, Measurement
from advisor.terms.target import Metric, Target, Verdict, parse_target

MET, MISSED, UNDECIDED = Verdict.MET, Verdict.MISSED, Verdict.UNDECIDED
TTFT = parse_target("ttft:p95<=100ms")


def judgement(verdict: Verdict, estimate: float | None, target: Target = TTFT) -> Judgement:
    return Judgement(target, verdict, estimate, None, None, None, None, None, 300, 18, 0.95)


def measured(multiple: float, *judgements: Judgement) -> Measurement:
    return Measurement(multiple, (), judgements, 1.0, 1.0, 1.0, 0.0, 300, 3)


def at(multiple: float, verdict: Verdict, estimate_ms: float) -> Measurement:
    return measured(multiple, judgement(verdict, estimate_ms))


def test_bracketed() -> None:
    found = headroom([at(1, MET, 50), at(2, MISSED, 200), at(1.5, UNDECIDED, 100)])
    assert (found.low, found.high) == (1, 2)
    assert found.estimate == pytest.approx(1.5)
    assert str(found) == "1 .. 2"


def test_crossing_is_linear_between_logarithms() -> None:
    found = headroom([at(1, MET, 50), at(4, MISSED, 200)])
    assert found.estimate == pytest.approx(2)


def test_outside_the_tried_range() -> None:
    above = headroom([at(0.5, MET, 20), at(1, MET, 50)])
    assert (above.low, above.high, above.estimate, str(above)) == (1, None, 1, ">= 1")
    below = headroom([at(0.5, MISSED, 300), at(1, MISSED, 500)])
    assert (below.low, below.high, below.estimate, str(below)) == (None, 0.5, 0.5, "< 0.5")


def test_met_above_missed_is_noise() -> None:
    found = headroom([at(0.5, MET, 40), at(1, MISSED, 130), at(2, MET, 90)])
    assert (found.low, found.high) == (0.5, 1)
    assert 0.5 <= found.estimate <= 1


def test_nothing_decided_still_steers() -> None:
    found = headroom([at(1, UNDECIDED, 80), at(2, UNDECIDED, 125)])
    assert (found.low, found.high, str(found)) == (None, None, "undecided")
    assert found.estimate == pytest.approx(math.sqrt(2))


def test_the_worst_target_decides() -> None:
    itl = parse_target("itl:p99<=10ms")
    both = measured(1, judgement(MET, 50), judgement(MISSED, 20, itl))
    assert worst_excess(both) == pytest.approx(math.log(2))


def test_failures_and_missing_samples_are_the_most_over() -> None:
    assert worst_excess(at(1, MISSED, math.inf)) == MOST
    assert worst_excess(measured(1, judgement(UNDECIDED, None))) == MOST


def test_errors_are_compared_in_percent() -> None:
    errors = parse_target("errors<=1%")
    assert worst_excess(measured(1, judgement(MISSED, 2, errors))) == pytest.approx(math.log(2))
    assert worst_excess(measured(1, judgement(MET, 0, errors))) == -MOST
    never = Target(Metric.ERRORS, None, 0, errors.unit)
    assert worst_excess(measured(1, judgement(MISSED, 2, never))) == MOST


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        headroom([])


cases = st.lists(
    st.tuples(st.floats(0.1, 5), st.sampled_from(list(Verdict)), st.floats(1, 1e4)),
    min_size=1,
    max_size=9,
    unique_by=lambda case: case[0],
)


@settings(deadline=None)
@given(cases)
def test_the_estimate_lies_in_the_bracket_and_the_tried_range(
    tried: list[tuple[float, Verdict, float]],
) -> None:
    found = headroom([at(*case) for case in tried])
    multiples = [multiple for multiple, _, _ in tried]
    low = min(multiples) if found.low is None else found.low
    high = max(multiples) if found.high is None else found.high
    assert low * (1 - 1e-12) <= found.estimate <= high * (1 + 1e-12)
    if found.low is not None and found.high is not None:
        assert found.low < found.high
