"""A plan's requests: when, how long, and which blocks they share with which."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.schedule import schedule
from advisor.profile.window import slice_of
from advisor.terms.errors import InputError
from advisor.terms.profile import Plan, PlannedRequest, Profile, Request, Window, WindowRole
from tests.unit.profile.builders import S, evenly, profile_of, profiles

WINDOW = Window("search-1", WindowRole.SEARCH, 20 * S, 60 * S)


def plan(multiple: float = 1.0, salt: int = 1, lead_in_ns: int = 10 * S) -> Plan:
    return Plan(WINDOW, multiple, salt, lead_in_ns)


def seconds(planned: tuple[PlannedRequest, ...], counted: bool) -> list[float]:
    return [r.at_ns / S for r in planned if r.counted is counted]


def test_the_window_follows_its_lead_in() -> None:
    planned = schedule(evenly(100, 5 * S), plan())
    assert seconds(planned, counted=False) == [0, 5]
    assert seconds(planned, counted=True) == [10 + 5 * i for i in range(8)]


def test_double_load_plays_window_and_lead_in_twice_in_the_same_time() -> None:
    planned = schedule(evenly(100, 5 * S), plan(multiple=2.0))
    assert seconds(planned, counted=False) == [0, 2.5, 5, 7.5]
    assert seconds(planned, counted=True) == [10 + 2.5 * i for i in range(16)]
    ids = Counter(i for request in planned for i in request.block_ids)
    assert set(ids.values()) == {1}


def test_half_load_plays_the_first_half_of_the_window_and_the_last_of_the_lead_in() -> None:
    planned = schedule(evenly(100, 5 * S), plan(multiple=0.5))
    assert seconds(planned, counted=False) == [0]
    assert seconds(planned, counted=True) == [10, 20, 30, 40]


def test_a_part_of_a_pass_ends_with_the_duration() -> None:
    planned = schedule(evenly(100, 5 * S), plan(multiple=1.25))
    assert seconds(planned, counted=False) == [2, 6]
    assert seconds(planned, counted=True) == [10 + 4 * i for i in range(10)]


def test_lead_in_and_window_share_the_cache() -> None:
    shared = [Request(i * 5 * S, 40, 5, (1, 2, 3), "s") for i in range(20)]
    first, *rest = schedule(profile_of(shared), plan(lead_in_ns=20 * S))
    assert not first.counted
    assert {r.block_ids for r in rest} == {first.block_ids}
    assert {r.session_id for r in rest} == {"s/0"}


def test_later_passes_are_new_to_the_cache_and_new_sessions() -> None:
    shared = [Request(i * 5 * S, 40, 5, (1, 2, 3), f"s{i}") for i in range(20)]
    planned = schedule(profile_of(shared), plan(multiple=3.0, lead_in_ns=0))
    assert Counter(r.block_ids for r in planned) == Counter(
        {ids: 8 for ids in {r.block_ids for r in planned}}
    )
    assert len({r.block_ids for r in planned}) == 3
    assert len({r.session_id for r in planned}) == len(planned)


def test_pauses_stay_as_recorded_at_any_multiple() -> None:
    shared = [Request(i * 5 * S, 40, 5, (), "s", i * S) for i in range(20)]
    planned = schedule(profile_of(shared), plan(multiple=2.0, lead_in_ns=0))
    first_pass = [r for r in planned if r.session_id == "s/0"]
    recorded_ns = [r.pause_ns for r in shared]
    assert [r.pause_ns for r in first_pass] == recorded_ns[2 : 2 + len(first_pass)]


def test_a_window_without_requests_plays_none() -> None:
    assert schedule(evenly(3, S), plan(lead_in_ns=0)) == ()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (plan(multiple=0.0), "multiple is 0.0"),
        (plan(multiple=-1.0), "multiple is -1.0"),
        (plan(multiple=float("nan")), "multiple is nan"),
        (plan(multiple=float("inf")), "multiple is inf"),
        (plan(lead_in_ns=-1), "lead-in is -1"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: Plan, words: str) -> None:
    with pytest.raises(InputError, match=words):
        schedule(evenly(100, S), wrong)


MULTIPLES = st.one_of(
    st.sampled_from([0.25, 0.5, 1.0, 1.2, 2.0, 3.0]),
    st.floats(0.05, 5.0, allow_nan=False),
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Profile, Plan]:
    profile = draw(profiles())
    start = draw(st.integers(0, 40 * S))
    window = Window("w", WindowRole.HELD_OUT, start, start + draw(st.integers(1, 60 * S)))
    salt = draw(st.integers(-(2**63), 2**63))
    return profile, Plan(window, draw(MULTIPLES), salt, draw(st.integers(0, 20 * S)))


@given(plans())
def test_times_are_in_order_and_the_duration_is_kept(case: tuple[Profile, Plan]) -> None:
    profile, plan_ = case
    planned = schedule(profile, plan_)
    counted_end = plan_.lead_in_ns + plan_.window.duration_ns
    assert [r.at_ns for r in planned] == sorted(r.at_ns for r in planned)
    for request in planned:
        if request.counted:
            assert plan_.lead_in_ns <= request.at_ns < counted_end
        else:
            assert 0 <= request.at_ns < plan_.lead_in_ns
        assert len(request.block_ids) == -(-request.input_length // profile.block_tokens)
        assert all(0 <= i < 2**63 for i in request.block_ids)
    assert schedule(profile, plan_) == planned


@given(plans(), st.integers(1, 4))
def test_a_whole_multiple_plays_every_request_that_often(
    case: tuple[Profile, Plan], multiple: int
) -> None:
    profile, plan_ = case
    once = schedule(profile, replace(plan_, multiple=1.0))
    many = schedule(profile, replace(plan_, multiple=float(multiple)))
    for counted in (True, False):
        sizes = Counter((r.input_length, r.output_length) for r in once if r.counted is counted)
        expected = Counter({size: n * multiple for size, n in sizes.items()})
        found = Counter((r.input_length, r.output_length) for r in many if r.counted is counted)
        assert expected == found


@given(plans())
def test_equal_ids_mean_equal_prefixes_and_the_reverse(case: tuple[Profile, Plan]) -> None:
    profile, plan_ = case
    # at the recorded speed nothing is repeated: planned requests are the slice's rows, in order
    planned = schedule(profile, replace(plan_, multiple=1.0))
    part = slice_of(profile, plan_.window, plan_.lead_in_ns)
    prefix_of: dict[int, object] = {}
    id_of: dict[object, int] = {}
    for request, (number, row) in zip(planned, part.lead_in + part.window, strict=True):
        assert (request.input_length, request.output_length) == (
            row.input_length,
            row.output_length,
        )
        for k, block_id in enumerate(request.block_ids):
            prefix = row.hash_ids[: k + 1] if row.hash_ids else ("row", number, k)
            assert prefix_of.setdefault(block_id, prefix) == prefix
            assert id_of.setdefault(prefix, block_id) == block_id


@given(plans(), st.integers(0, 2**40))
def test_no_id_appears_under_two_salts(case: tuple[Profile, Plan], other: int) -> None:
    profile, plan_ = case
    if other == plan_.salt:
        return

    def ids(salt: int) -> set[int]:
        planned = schedule(profile, replace(plan_, salt=salt))
        return {i for request in planned for i in request.block_ids}

    assert ids(plan_.salt).isdisjoint(ids(other))


def test_every_process_gives_the_same_ids() -> None:
    code = (
        "import json; from tests.unit.profile.test_schedule import *;"
        "p = profile_of([Request(25 * S, 40, 5, (1, 2, 3)), Request(26 * S, 40, 5)]);"
        "print(json.dumps([r.block_ids for r in schedule(p, plan())]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert [len(ids) for ids in json.loads(runs[0])] == [3, 3]
