"""Recordings that the same traffic could have given."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.resample import resampled
from advisor.profile.synth import synthesise
from advisor.terms.profile import Request
from tests.unit.profile.builders import S, evenly, profile_of


@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 5))
def test_it_is_as_long_as_asked_in_order_and_as_dense(
    length_s: int, segment_s: int, seed: int
) -> None:
    profile = evenly(600, S // 10)
    made = resampled(profile, length_s * S, segment_s * S, seed)
    arrivals = [request.arrival_ns for request in made.requests]
    assert all(a <= b for a, b in pairwise(arrivals))
    assert arrivals[0] >= 0
    assert arrivals[-1] < length_s * S
    segments = -(-length_s // segment_s)
    if segment_s < 59:  # a segment longer than the recording has no more than the recording
        assert abs(len(arrivals) - 10 * length_s) <= 2 * segments


def test_the_same_seed_makes_the_same() -> None:
    profile = evenly(600, S // 10)
    one, same, other = (resampled(profile, 50 * S, 7 * S, seed) for seed in (1, 1, 2))
    assert one == same
    assert one.requests != other.requests


def test_lengths_stay_together() -> None:
    profile = profile_of([Request(i * S, 10 + i, 500 - i) for i in range(300)])
    made = resampled(profile, 900 * S, 20 * S, 3)
    assert {r.input_length + r.output_length for r in made.requests} == {510}
    assert len({r.input_length for r in made.requests}) > 200


def test_what_is_shared_stays_shared_and_a_copy_shares_nothing_of_its_own() -> None:
    requests = [Request(i * S, 30, 5, (1, 2, 100 + i), f"s{i}") for i in range(40)]
    made = resampled(profile_of(requests), 400 * S, 10 * S, 1).requests
    assert {r.hash_ids[:2] for r in made} == {(1, 2)}
    assert len({r.hash_ids[2] for r in made}) == len(made) > 300
    assert len({r.session_id for r in made}) == len(made)


def test_a_session_comes_whole_however_long_it_lasts() -> None:
    # one every second, its second turn 25 s later, on blocks that it alone holds
    first = [Request(i * S, 30, 5, (7, 70 + i), f"s{i}") for i in range(100)]
    second = [Request(i * S + 25 * S, 60, 5, (7, 70 + i), f"s{i}") for i in range(100)]
    requests = sorted(first + second, key=lambda request: request.arrival_ns)
    made = resampled(profile_of(requests), 200 * S, 10 * S, 1).requests
    by_session: dict[str | None, list[Request]] = {}
    for request in made:
        by_session.setdefault(request.session_id, []).append(request)
    begun = [turns for turns in by_session.values() if turns[0].arrival_ns < 170 * S]
    whole = [turns for turns in begun if turns[0].input_length == 30]
    assert len(whole) > 150
    for turns in whole:
        assert [turn.input_length for turn in turns] == [30, 60]
        assert turns[1].arrival_ns - turns[0].arrival_ns == 25 * S
        assert turns[0].hash_ids == turns[1].hash_ids
    assert len({turns[0].hash_ids for turns in by_session.values()}) == len(by_session)


@pytest.mark.parametrize("name", ["chat-and-documents", "chat-shared-prefix"])
def test_a_shipped_profile_keeps_its_rate_and_its_prompts(name: str) -> None:
    profile = synthesise(name)
    made = resampled(profile, profile.duration_ns, profile.duration_ns // 36, 1)
    assert len(made.requests) == pytest.approx(len(profile.requests), rel=0.1)
    mean = [sum(r.input_length for r in p.requests) / len(p.requests) for p in (profile, made)]
    assert mean[1] == pytest.approx(mean[0], rel=0.1)
