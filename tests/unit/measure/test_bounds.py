from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from advisor.measure.bounds import (
    bounds_at,
    design_effect,
    effective_size,
    lower_is_within,
    share_bounds,
    upper_is_within,
)

blocks = st.lists(
    st.integers(0, 40).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))),
    min_size=1,
    max_size=20,
).filter(lambda pairs: any(total for _, total in pairs))
levels = st.floats(0.55, 0.999)
deffs = st.floats(0.1, 50)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    over, total = zip(*pairs, strict=True)
    return np.array(over, dtype=np.int64), np.array(total, dtype=np.int64)


@settings(deadline=None)
@given(blocks, levels, deffs)
def test_bounds_enclose_the_share(
    pairs: list[tuple[int, int]], confidence: float, deff: float
) -> None:
    share, lower, upper = share_bounds(*columns(pairs), confidence, deff)
    assert 0 <= lower <= share <= upper <= 1


@settings(deadline=None)
@given(blocks, levels, levels, deffs)
def test_more_confidence_is_wider(
    pairs: list[tuple[int, int]], one: float, other: float, deff: float
) -> None:
    less, more = sorted((one, other))
    narrow, wide = (share_bounds(*columns(pairs), level, deff) for level in (less, more))
    assert wide.lower <= narrow.lower + 1e-9
    assert wide.upper >= narrow.upper - 1e-9


@settings(deadline=None)
@given(st.integers(2, 500), st.integers(2, 40), levels, deffs)
def test_more_exceedances_raise_both_bounds(
    n: int, blocks: int, confidence: float, deff: float
) -> None:
    size = effective_size(n, blocks, confidence, deff)
    found = [bounds_at(k / n, size, confidence) for k in range(n + 1)]
    assert all(a.upper <= b.upper + 1e-9 for a, b in pairwise(found))
    assert all(a.lower <= b.lower + 1e-9 for a, b in pairwise(found))


@settings(deadline=None)
@given(blocks)
def test_design_effect_is_at_least_one(pairs: list[tuple[int, int]]) -> None:
    over, total = columns(pairs)
    assert design_effect(over, total, np.zeros(len(over), dtype=np.int64)) >= 1


@pytest.mark.parametrize(("k", "n"), [(0, 59), (3, 300), (15, 300), (300, 300)])
def test_independent_samples_give_clopper_and_pearson(k: int, n: int) -> None:
    found = bounds_at(k / n, n, 0.95)
    exact = stats.binomtest(k, n).proportion_ci(0.90, method="exact")
    assert found.lower == pytest.approx(exact.low)
    assert found.upper == pytest.approx(exact.high)


def test_no_exceedance_still_has_a_bound() -> None:
    none, total = np.zeros(18, dtype=np.int64), np.full(18, 100)
    independent = share_bounds(none, total, 0.95, 1.0)
    clustered = share_bounds(none, total, 0.95, 10.0)
    assert 0.001 < independent.upper < clustered.upper


def test_clumped_exceedances_count_for_less() -> None:
    total, replay = np.full(12, 100), np.repeat([0, 1], 6)
    spread = np.full(12, 5)
    spread[::2] += 1
    clumped = np.zeros(12, dtype=np.int64)
    clumped[3] = spread.sum()
    assert design_effect(clumped, total, replay) > 20 * design_effect(spread, total, replay)


def test_neighbours_count_inside_a_replay_only() -> None:
    total = np.full(8, 100)
    over = np.array([0, 0, 0, 40, 40, 0, 0, 0], dtype=np.int64)
    together = design_effect(over, total, np.zeros(8, dtype=np.int64))
    apart = design_effect(over, total, np.repeat([0, 1], 4))
    assert together > apart


def test_one_block_bounds_nothing() -> None:
    assert share_bounds(np.array([1]), np.array([900]), 0.95, 1.0)[1:] == (0, 1)


def test_impossible_input_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        share_bounds(np.array([0, 0]), np.array([0, 0]), 0.95, 1.0)
    with pytest.raises(ValueError, match="more than all"):
        design_effect(np.array([3]), np.array([2]), np.array([0]))
    for confidence in (0.5, 1.0):
        with pytest.raises(ValueError, match=r"above 0\.5 and below 1"):
            share_bounds(np.array([0, 0]), np.array([5, 5]), confidence, 1.0)


@settings(deadline=None)
@given(
    st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(0, 1),
    levels,
    st.floats(1e-4, 0.5),
)
def test_a_bound_is_within_what_is_allowed_exactly_when_it_is_no_larger(
    counted: tuple[int, int], worth: float, confidence: float, allowed: float
) -> None:
    over, n = counted
    found = bounds_at(over / n, size := n * worth, confidence)
    for bound, is_within in ((found.upper, upper_is_within), (found.lower, lower_is_within)):
        assume(abs(bound / allowed - 1) > 1e-9)
        assert is_within(over / n, size, confidence, allowed) == (bound <= allowed)
