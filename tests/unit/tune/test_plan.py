"""What is refused before the first launch."""

from dataclasses import replace

import pytest

from advisor.measure.looks import level
from advisor.measure.power import provable_error_limit
from advisor.profile.window import slice_of
from advisor.terms.errors import ProfileError, TargetError
from advisor.terms.profile import Request
from advisor.terms.target import DEFAULT_ERRORS, parse_target
from advisor.tune.plan import gap_ns, plan_split
from tests.unit.profile.builders import S, evenly, profile_of
from tests.unit.tune.jobs import SPEC, spec_with

#: An hour at ten requests a second.
LONG = evenly(36_000, S // 10)
TTFT = parse_target("ttft:p95<=1s")


def test_every_round_and_the_search_get_their_windows() -> None:
    plan = plan_split(LONG, spec_with("ttft:p95<=1s", rounds=2, windows=3))
    assert (len(plan.windows.search), len(plan.windows.held_out)) == (3, 6)
    assert plan.windows.gap_ns == gap_ns(LONG, spec_with("ttft:p95<=1s")) == 5 * S


def test_the_gap_outlasts_the_longest_answer() -> None:
    requests = [Request(i * S, 10, 5) for i in range(1000)]
    requests[50] = Request(50 * S, 10, 1000)
    spec = spec_with("ttft:p95<=1s")
    assert gap_ns(profile_of(requests), spec) == 20 * S


def test_one_long_answer_leaves_most_of_a_short_profile_to_the_windows() -> None:
    requests = [Request(i * S, 10, 1000) for i in range(271)]
    spec = spec_with("ttft:p95<=1s", rounds=2, windows=3)
    assert gap_ns(profile_of(requests), spec) == 10 * S


def test_the_default_error_target_is_added_where_it_can_be_proven() -> None:
    plan = plan_split(LONG, spec_with("ttft:p95<=1s"))
    assert plan.targets == (TTFT, DEFAULT_ERRORS)


def test_a_shorter_profile_raises_the_default_error_limit_to_what_it_proves() -> None:
    profile = evenly(3600, S // 4)
    spec = spec_with("ttft:p95<=1s")
    plan = plan_split(profile, spec)
    added = plan.targets[1]
    assert added.asked == str(DEFAULT_ERRORS)
    pools = [plan.windows.search, plan.windows.held_out[:3], plan.windows.held_out[3:]]
    least = min(sum(len(slice_of(profile, window).requests) for window in pool) for pool in pools)
    proven = provable_error_limit(least, level(0.95, 3))
    assert DEFAULT_ERRORS.limit < proven <= added.limit < proven + 0.011


def test_a_given_error_target_is_kept_or_refused_and_never_changed() -> None:
    kept = plan_split(LONG, spec_with("ttft:p95<=1s", "errors<=1%"))
    assert kept.targets == (TTFT, parse_target("errors<=1%"))
    with pytest.raises(TargetError, match=r"errors<=0.1%.*which prove errors<="):
        plan_split(evenly(3600, S // 4), spec_with("ttft:p95<=1s", "errors<=0.1%"))
    with pytest.raises(TargetError, match="no number of requests proves"):
        plan_split(LONG, spec_with("ttft:p95<=1s", "errors<=0%"))


def test_a_target_that_cannot_be_decided_is_refused_with_the_length_that_could() -> None:
    short = evenly(1000, S // 2)
    with pytest.raises(TargetError) as error:
        plan_split(short, spec_with("ttft:p99<=1s"))
    assert str(error.value).startswith("target ttft:p99<=1s: the 3 windows hold 303 requests")
    assert "needs about 1500 requests; a profile of about 2473 s would do" in str(error.value)


def test_less_load_has_fewer_requests_to_decide_by() -> None:
    profile = evenly(3600, S // 4)
    plan_split(profile, spec_with("ttft:p95<=1s"))
    with pytest.raises(TargetError, match="the 3 windows hold"):
        plan_split(profile, spec_with("ttft:p95<=1s", load=0.1))


def test_a_stricter_confidence_raises_the_error_limit() -> None:
    profile = evenly(3600, S // 4)
    limits = [
        plan_split(profile, spec_with("ttft:p95<=1s", confidence=confidence)).targets[1].limit
        for confidence in (0.9, 0.95, 0.99)
    ]
    assert limits == sorted(limits)
    assert limits[0] < limits[-1]


def test_a_window_without_a_request_is_named() -> None:
    quiet = [r for r in LONG.requests if not 790 * S < r.arrival_ns < 1210 * S]
    with pytest.raises(ProfileError, match=r"no request begins in (search|held-out)-"):
        plan_split(profile_of(quiet), replace(SPEC, targets=(TTFT,)))


def test_a_profile_too_short_to_be_split_is_refused() -> None:
    with pytest.raises(ProfileError, match="too short for 9 windows"):
        plan_split(evenly(50, S), replace(SPEC, targets=(TTFT,)))
