"""The longest requests of a profile, all at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.columns import Columns
from advisor.profile.longest import longest
from advisor.profile.schedule import schedule
from advisor.terms.errors import InputError
from advisor.terms.load import Load
from advisor.terms.profile import Profile, Request
from tests.unit.profile.builders import S, evenly, profile_of, profiles
from tests.unit.profile.test_schedule import plan

SHARED = profile_of(
    [
        Request(0, 40, 5, (1, 2, 3), "a"),
        Request(S, 60, 5, (1, 2, 3, 4), "a", S),
        Request(2 * S, 16, 90, (9,)),
        Request(3 * S, 60, 5),
    ]
)


def test_the_most_tokens_go_first_and_of_equal_ones_the_earlier() -> None:
    assert longest([45, 65, 106, 65], 3) == [(0, 2), (0, 1), (0, 3)]


def test_a_short_profile_begins_again_in_a_next_pass() -> None:
    assert longest([5, 7], 5) == [(0, 1), (0, 0), (1, 1), (1, 0), (2, 1)]


def test_they_come_at_once_each_for_itself() -> None:
    planned = schedule(SHARED, replace(plan(lead_in_ns=0), at_once=6))
    assert {request.at_ns for request in planned} == {0}
    assert all(request.counted for request in planned)
    assert [request.input_length for request in planned] == [16, 60, 60, 40, 16, 60]
    assert {(request.session_id, request.pause_ns) for request in planned} == {(None, None)}
    ids = [id_ for request in planned for id_ in request.block_ids]
    assert len(set(ids)) == len(ids), "a prompt that is in the cache is no load"
    assert [len(request.block_ids) for request in planned] == [1, 4, 4, 3, 1, 4]


@given(profiles(), st.integers(1, 60))
def test_columns_plan_the_same(profile: Profile, count: int) -> None:
    all_at_once = replace(plan(), at_once=count)
    planned = schedule(profile, all_at_once)
    load, expected = Columns.of(profile).load(all_at_once), Load.of(planned, profile.block_tokens)
    for name in ("at_ns", "input_length", "output_length", "counted"):
        np.testing.assert_array_equal(getattr(load, name), getattr(expected, name), name)
    assert load.turns is expected.turns is None
    # ids that nobody shares are the same as none
    assert (len(load.ids), load.num_ids) == (0, 0)
    assert expected.num_ids == len(expected.ids)


def test_none_at_once_is_no_plan() -> None:
    nothing = replace(plan(), at_once=0)
    for expand in (lambda: schedule(SHARED, nothing), lambda: Columns.of(SHARED).load(nothing)):
        with pytest.raises(InputError, match="requests at once is 0; expected 1 or more"):
            expand()


def test_another_salt_makes_other_prompts() -> None:
    first, second = (
        schedule(evenly(3, S), replace(plan(salt=salt), at_once=3)) for salt in (1, 2)
    )
    ours, theirs = ({i for r in planned for i in r.block_ids} for planned in (first, second))
    assert ours.isdisjoint(theirs)
