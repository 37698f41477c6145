"""A load in columns is what `schedule` plans, request for request."""

import numpy as np
import pytest
from hypothesis import given

from advisor.profile.columns import Columns
from advisor.profile.schedule import schedule
from advisor.terms.errors import InputError
from advisor.terms.load import Load
from advisor.terms.profile import Plan, Profile
from tests.unit.profile.builders import S, evenly
from tests.unit.profile.test_schedule import plan, plans


@given(plans())
def test_columns_plan_what_schedule_plans(case: tuple[Profile, Plan]) -> None:
    profile, plan_ = case
    planned = schedule(profile, plan_)
    load, expected = Columns.of(profile).load(plan_), Load.of(planned, profile.block_tokens)
    assert (load.turns is None) == (expected.turns is None)
    if load.turns is not None and expected.turns is not None:
        np.testing.assert_array_equal(load.turns.before, expected.turns.before)
        np.testing.assert_array_equal(load.turns.pause_ns, expected.turns.pause_ns)
    for name in ("at_ns", "input_length", "output_length", "counted"):
        np.testing.assert_array_equal(getattr(load, name), getattr(expected, name), name)
    # Prompts with ids share among each other what they shall, and the others nothing.
    same: dict[int, int] = {}
    for row in range(len(load)):
        ids = load.ids[load.id_offsets[row] : load.id_offsets[row + 1]].tolist()
        wanted = expected.ids[expected.id_offsets[row] : expected.id_offsets[row + 1]].tolist()
        for one, other in zip(ids, wanted, strict=bool(ids)):
            assert same.setdefault(one, other) == other
    assert len(set(same.values())) == len(same) == load.num_ids


def test_a_wrong_multiple_is_refused() -> None:
    with pytest.raises(InputError, match="load multiple is 0"):
        Columns.of(evenly(3, S)).load(plan(multiple=0.0))
