import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.bounds import bounds_at
from advisor.measure.power import (
    PlannedSample,
    check_power,
    gaps_needed,
    provable_error_limit,
    requests_needed,
)
from advisor.terms.errors import TargetError
from advisor.terms.target import DEFAULT_ERRORS, parse_target

PLENTY = PlannedSample(requests=5000, gaps=500_000, windows=3, profile_s=1800)


def planned(requests: int, gaps: int = 500_000, windows: int = 3) -> PlannedSample:
    return PlannedSample(requests, gaps, windows, profile_s=600)


def refusal(text: str, sample: PlannedSample) -> str:
    with pytest.raises(TargetError) as caught:
        check_power([parse_target(text)], sample, 0.95)
    return str(caught.value)


def test_enough_is_accepted() -> None:
    texts = ("ttft:p95<=1s", "ttft:p99<=0.6x", "itl:p99<=100ms", "errors<=0.1%")
    check_power([parse_target(text) for text in texts], PLENTY, 0.95)


def test_needs_grow_with_the_percentile() -> None:
    needs = [requests_needed(parse_target(f"ttft:p{p}<=1s")) for p in (50, 90, 95, 99, 99.9)]
    assert needs == [30, 150, 300, 1500, 15_000]
    assert gaps_needed(parse_target("ttft:p99<=1s")) == 0
    assert gaps_needed(parse_target("itl:p99<=1s")) == 11_250


def test_a_refusal_names_what_there_is_what_it_needs_and_the_length() -> None:
    message = refusal("ttft:p99<=1s", planned(300))
    for part in ("ttft:p99<=1s", "300 requests", "1500 requests", "about 3000 s", "600 s"):
        assert part in message


def test_the_first_length_that_is_named_would_do() -> None:
    check_power([parse_target("ttft:p99<=1s")], planned(300 * 5), 0.95)
    assert "1499" in refusal("ttft:p99<=1s", planned(1499))


def test_pooled_gaps_need_gaps_and_requests() -> None:
    check_power([parse_target("itl:p99<=1s")], planned(300, gaps=14_400), 0.95)
    assert "5000 gaps" in refusal("itl:p99<=1s", planned(300, gaps=5000))
    message = refusal("itl:p99<=1s", planned(50, gaps=5000))
    assert "50 requests and 5000 gaps" in message
    assert "about 2400 s" in message
    assert "no length of this profile" in refusal("itl:p99<=1s", planned(300, gaps=0))


def test_errors_need_requests_enough_to_prove_the_limit() -> None:
    message = refusal("errors<=0.1%", planned(300))
    assert "errors<=0.9937% at best" in message
    assert "it needs 2995" in message
    check_power([parse_target("errors<=0.1%")], planned(2995), 0.95)
    with pytest.raises(TargetError, match="prove nothing"):
        check_power([DEFAULT_ERRORS], planned(0), 0.95)
    assert "none ever fails" in refusal("errors<=0%", PLENTY)


def test_two_windows_are_refused() -> None:
    with pytest.raises(TargetError, match="windows 2"):
        check_power([], planned(5000, windows=2), 0.95)


@settings(deadline=None)
@given(st.integers(1, 20_000), st.floats(0.8, 0.99))
def test_the_provable_limit_is_what_no_error_proves(requests: int, confidence: float) -> None:
    limit = provable_error_limit(requests, confidence)
    upper = bounds_at(0.0, requests, confidence).upper * 100
    assert upper <= limit * (1 + 1e-9)
    assert limit <= upper + 2e-4


def test_no_request_proves_nothing() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        provable_error_limit(0, 0.95)
