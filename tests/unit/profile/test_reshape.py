"""Other arrivals for the same requests."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.reshape import cap_gaps, has_pauses, ramp, redraw, without_pauses
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request
from tests.unit.profile.builders import S, evenly, profile_of, profiles


def gaps_s(profile: Profile) -> list[float]:
    return [(b.arrival_ns - a.arrival_ns) / 1e9 for a, b in pairwise(profile.requests)]


def test_idle_time_is_cut_and_all_after_it_comes_earlier() -> None:
    profile = profile_of([Request(at * S, 1, 1) for at in (5, 6, 106, 107, 110)])
    capped = cap_gaps(profile, 3)
    assert [r.arrival_ns // S for r in capped.requests] == [5, 6, 9, 10, 13]
    assert capped.made_by == "a test; gaps cut to 3 s, 97.0 s in all"


@given(profiles(), st.floats(0.001, 5))
def test_a_cap_lets_no_gap_grow_and_none_be_longer_than_it(profile: Profile, most: float) -> None:
    before, after = gaps_s(profile), gaps_s(cap_gaps(profile, most))
    assert all(
        b == pytest.approx(min(a, most), abs=1e-9) for a, b in zip(before, after, strict=True)
    )


def test_drawn_gaps_have_the_mean_and_the_spread_that_were_asked_for() -> None:
    count = 20_000
    for cv in (0.25, 1.0, 2.0):
        drawn = gaps_s(redraw(evenly(count, S), cv=cv, rate_rps=4.0, seed=3))
        # four standard errors, the second by the kurtosis of a gamma, 6 cv^2
        assert np.mean(drawn) == pytest.approx(0.25, rel=4 * cv / count**0.5)
        spread = (0.5 + 1.5 * cv**2) ** 0.5 / count**0.5
        assert np.std(drawn) == pytest.approx(0.25 * cv, rel=4 * spread)


def test_poisson_gaps_are_exponential() -> None:
    drawn = np.sort(gaps_s(redraw(evenly(5_000, S), cv=1, rate_rps=1, seed=1)))
    shares = np.arange(1, len(drawn) + 1) / len(drawn)
    # Kolmogorov-Smirnov at the 0.1 % level
    assert np.abs(1 - np.exp(-drawn) - shares).max() < 1.95 / len(drawn) ** 0.5


def test_the_recorded_rate_is_kept_and_a_seed_gives_one_load() -> None:
    profile = evenly(2_000, S // 5)
    drawn = redraw(profile, cv=1, rate_rps=None, seed=7)
    assert np.mean(gaps_s(drawn)) == pytest.approx(0.2, rel=0.1)
    assert drawn == redraw(profile, cv=1, rate_rps=None, seed=7)
    assert drawn.sha256 != redraw(profile, cv=1, rate_rps=None, seed=8).sha256
    assert drawn.made_by == "a test; arrivals drawn at 5 requests/s, cv 1, seed 7"


def test_drawn_times_are_the_same_on_every_machine() -> None:
    drawn = redraw(evenly(5, S), cv=2, rate_rps=1, seed=0)
    assert [r.arrival_ns for r in drawn.requests] == DRAWN_NS


DRAWN_NS = [0, 362900000, 890900000, 1019800000, 1166400000]


@given(profiles(), st.sampled_from(["redraw", "ramp"]), st.floats(0.1, 10))
def test_conversations_move_as_a_whole(profile: Profile, how: str, number: float) -> None:
    if how == "redraw":
        sessions = {r.session_id for r in profile.requests} - {None}
        if len(sessions) + sum(r.session_id is None for r in profile.requests) < 2:
            return
        moved = redraw(profile, cv=number, rate_rps=number, seed=1)
    else:
        moved = ramp(profile, number)
    times = [r.arrival_ns for r in moved.requests]
    assert times == sorted(times)
    assert _work(moved) == _work(profile)
    assert _distances(moved) == _distances(profile)


def _work(profile: Profile) -> Counter[tuple[int, int, tuple[int, ...], str | None]]:
    return Counter(
        (r.input_length, r.output_length, r.hash_ids, r.session_id) for r in profile.requests
    )


def _distances(profile: Profile) -> dict[str, list[tuple[int, int]]]:
    """Of each conversation: its turns' times after the first, and their prompts."""
    found: dict[str, list[tuple[int, int]]] = {}
    first: dict[str, int] = {}
    for request in profile.requests:
        if request.session_id is not None:
            start = first.setdefault(request.session_id, request.arrival_ns)
            turn = (request.arrival_ns - start, request.input_length)
            found.setdefault(request.session_id, []).append(turn)
    return found


def test_a_ramp_keeps_the_time_and_the_number() -> None:
    profile = evenly(1_001, S)
    ramped = ramp(profile, 3)
    assert len(ramped.requests) == 1_001
    assert ramped.duration_ns == profile.duration_ns
    gaps = gaps_s(ramped)
    # of the mean rate, the first is 1 / 2 and the last 3 / 2
    assert gaps[0] == pytest.approx(2, rel=0.01)
    assert gaps[-1] == pytest.approx(2 / 3, rel=0.01)
    # even in time: half of the time has passed at the mean rate
    passed = sum(r.arrival_ns <= 500 * S for r in ramped.requests)
    assert passed == pytest.approx((0.5 + 0.25) / 2 * 1_000, abs=2)
    assert ramp(profile, 1).requests == profile.requests
    assert gaps_s(ramp(profile, 1 / 3)) == pytest.approx(gaps[::-1], rel=1e-6)


def test_pauses_are_left_out_on_demand() -> None:
    turns = [Request(0, 1, 1, (), "a"), Request(S, 1, 1, (), "a", S // 2), Request(2 * S, 1, 1)]
    profile = profile_of(turns)
    assert has_pauses(profile)
    plain = without_pauses(profile)
    assert not has_pauses(plain)
    assert [r.arrival_ns for r in plain.requests] == [0, S, 2 * S]
    with pytest.raises(ProfileError, match="no pause"):
        without_pauses(plain)


@pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_numbers_that_make_no_sense_are_refused(number: float) -> None:
    profile = evenly(3, S)
    with pytest.raises(ProfileError, match=r"cv is .*expected above 0, at most 10"):
        redraw(profile, cv=number, rate_rps=1, seed=0)
    with pytest.raises(ProfileError, match=r"rate is .*expected above 0"):
        redraw(profile, cv=1, rate_rps=number, seed=0)
    with pytest.raises(ProfileError, match=r"ramp is .*expected above 0"):
        ramp(profile, number)
    if number < 1e9 or number == float("inf"):
        with pytest.raises(ProfileError, match=r"most gap is .*expected a number above 0"):
            cap_gaps(profile, number)


def test_loads_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ProfileError, match="seed is -1"):
        redraw(evenly(3, S), cv=1, rate_rps=1, seed=-1)
    with pytest.raises(ProfileError, match="expected 2 or more"):
        redraw(profile_of([Request(i, 1, 1, (), "a") for i in range(3)]), cv=1, rate_rps=1, seed=0)
    with pytest.raises(ProfileError, match="expected a rate"):
        redraw(profile_of([Request(0, 1, 1)] * 3), cv=1, rate_rps=None, seed=0)
    with pytest.raises(ProfileError, match="expected a higher rate"):
        redraw(evenly(3, S), cv=1, rate_rps=1e-12, seed=0)
