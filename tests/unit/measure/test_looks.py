from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measure.looks import MOST_LOOKS, Looks, level


def test_the_error_is_split_equally() -> None:
    assert level(0.95, 1) == 0.95
    assert level(0.95, 2) == pytest.approx(0.975)
    assert Looks(0.95).level == 0.95
    assert Looks(0.95, looks=4).level == pytest.approx(0.9875)
    assert Looks(0.9, looks=2, claims=5).level == pytest.approx(0.99)


def test_each_look_spends_the_error_of_the_windows_it_adds() -> None:
    assert Looks(0.95, looks=4).levels([3, 6, 9, 12]) == pytest.approx([0.9875] * 4)
    assert Looks(0.95, looks=2).levels([3, 12]) == pytest.approx([0.9875, 0.9625])
    assert Looks(0.95).levels([3]) == pytest.approx([0.95])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=MOST_LOOKS), st.integers(1, 3))
def test_all_looks_together_spend_one_claims_error(added: list[int], claims: int) -> None:
    seen = list(accumulate(added))
    levels = Looks(0.95, looks=len(seen), claims=claims).levels(seen)
    assert sum(1 - each for each in levels) == pytest.approx(0.05 / claims)
    assert all(each > 0.95 or len(seen) == claims == 1 for each in levels)


@pytest.mark.parametrize("windows", [[3], [3, 3], [0, 3], [6, 3]])
def test_looks_see_more_each_time(windows: list[int]) -> None:
    with pytest.raises(ValueError, match="2 rising numbers"):
        Looks(0.95, looks=2).levels(windows)


@pytest.mark.parametrize("looks", [0, MOST_LOOKS + 1])
def test_looks_are_counted(looks: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 4"):
        Looks(0.95, looks=looks)


def test_impossible_levels_are_refused() -> None:
    for confidence in (0.5, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            Looks(confidence)
    with pytest.raises(ValueError, match="claims 0"):
        Looks(0.95, claims=0)
