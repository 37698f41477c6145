"""Windows: interleaved, apart, and each session in one of them at most."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.window import slice_of, split
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request, Window, WindowRole
from tests.unit.profile.builders import S, evenly, profile_of, profiles


def test_windows_interleave_with_a_gap_before_each() -> None:
    windows = split(evenly(901, S), windows=3, rounds=2, gap_ns=20 * S)
    seconds = {w.name: (w.start_ns / S, w.end_ns / S) for w in windows.search + windows.held_out}
    assert seconds == {
        "search-1": (20, 100),
        "held-out-1-1": (120, 200),
        "held-out-2-1": (220, 300),
        "search-2": (320, 400),
        "held-out-1-2": (420, 500),
        "held-out-2-2": (520, 600),
        "search-3": (620, 700),
        "held-out-1-3": (720, 800),
        "held-out-2-3": (820, 900),
    }
    # a round's windows lie together in the tuple and apart in time
    assert [w.name for w in windows.held_out[:3]] == [f"held-out-1-{k}" for k in (1, 2, 3)]
    assert {w.role for w in windows.search} == {WindowRole.SEARCH}
    assert {w.role for w in windows.held_out} == {WindowRole.HELD_OUT}
    assert windows.gap_ns == 20 * S


@given(st.integers(1, 5), st.integers(0, 4), st.integers(0, 50), st.integers(0, 10**6))
def test_windows_are_equal_inside_the_profile_and_a_gap_apart(
    windows: int, rounds: int, gap_ns: int, start_ns: int
) -> None:
    requests = [Request(start_ns + i * 7, 1, 1) for i in range(1000)]
    profile = profile_of(requests)
    split_ = split(profile, windows=windows, rounds=rounds, gap_ns=gap_ns)
    assert (len(split_.search), len(split_.held_out)) == (windows, windows * rounds)
    every = sorted(split_.search + split_.held_out, key=lambda w: w.start_ns)
    assert len({w.name for w in every}) == len(every)
    assert len({w.duration_ns for w in every}) == 1
    assert every[0].duration_ns >= gap_ns
    assert every[-1].end_ns <= requests[-1].arrival_ns
    ends = [requests[0].arrival_ns, *(w.end_ns for w in every)]
    assert {w.start_ns - end for w, end in zip(every, ends, strict=False)} == {gap_ns}


def test_a_profile_too_short_for_its_windows_is_told_what_would_do() -> None:
    profile = evenly(180, S)
    with pytest.raises(ProfileError, match=r"179\.0 s long.*9 windows.*at least 180\.0 s"):
        split(profile, windows=3, rounds=2, gap_ns=10 * S)
    assert (
        split(evenly(181, S), windows=3, rounds=2, gap_ns=10 * S).search[0].duration_ns == 10 * S
    )
    with pytest.raises(ProfileError, match="too short"):
        split(evenly(1, S), windows=1, rounds=0, gap_ns=0)


@pytest.mark.parametrize(
    ("windows", "rounds", "gap_ns", "words"),
    [(0, 2, 0, "windows is 0"), (3, -1, 0, "rounds is -1"), (3, 2, -1, "gap_ns is -1")],
)
def test_a_split_that_makes_no_sense_is_refused(
    windows: int, rounds: int, gap_ns: int, words: str
) -> None:
    with pytest.raises(ProfileError, match=words):
        split(evenly(99, S), windows=windows, rounds=rounds, gap_ns=gap_ns)


def test_a_session_is_played_where_it_began() -> None:
    names = ["before", "gap", "in", None, "before", "gap", "in", "in"]
    profile = profile_of([Request(i * S, 1, 1, (), name) for i, name in enumerate(names)])
    window = Window("w", WindowRole.SEARCH, 2 * S, 7 * S)
    with_gap = slice_of(profile, window, lead_in_ns=S)
    assert [row for row, _ in with_gap.lead_in] == [1]
    # row 4's session began before the gap; row 7 comes after the window's end
    assert [row for row, _ in with_gap.window] == [2, 3, 5, 6]
    assert with_gap.left_out == 1
    without = slice_of(profile, window)
    assert [row for row, _ in without.window] == [2, 3, 6]
    assert (without.lead_in, without.left_out) == ((), 2)
    assert without.requests == tuple(profile.requests[row] for row in (2, 3, 6))


@given(profiles(), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2 * S))
def test_no_session_and_no_request_is_in_two_windows(
    profile: Profile, windows: int, rounds: int, gap_ns: int
) -> None:
    try:
        split_ = split(profile, windows=windows, rounds=rounds, gap_ns=gap_ns)
    except ProfileError:
        return
    homes = defaultdict(set)
    for window in split_.search + split_.held_out:
        part = slice_of(profile, window, split_.gap_ns)
        low, high = window.start_ns - gap_ns, window.end_ns
        inside = [r for r in profile.requests if low <= r.arrival_ns < high]
        assert len(part.lead_in) + len(part.window) + part.left_out == len(inside)
        for row, request in part.lead_in + part.window:
            assert profile.requests[row] is request
            homes[request.session_id or row].add(window.name)
    assert all(len(where) == 1 for where in homes.values())
