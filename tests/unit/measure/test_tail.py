import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.curves import Curve, Pool
from advisor.measure.tail import FEW, TailTest, nearest_rank, tail_test


def pooled(blocks: list[list[float]], windows: int = 1) -> Pool:
    """Blocks of samples, an equal number of them in each window."""
    distinct = [np.unique(np.array(block, np.float64), return_counts=True) for block in blocks]
    offsets = np.cumsum([0, *(len(values) for values, _ in distinct)], dtype=np.int64)
    values, counts = (np.concatenate(column) for column in zip(*distinct, strict=True))
    starts = np.concatenate(([0], np.cumsum(counts)))
    n = int(starts[-1])
    curve = Curve(values, starts, offsets, np.array([n]), owners=b"")
    replay = np.repeat(np.arange(windows), len(blocks) // windows)
    whole = np.sort(np.repeat(values, counts))
    return Pool([curve], whole, np.arange(n + 1), curve.totals, replay)


samples = st.lists(
    st.lists(st.floats(0, 1000) | st.just(math.inf) | st.sampled_from([10.0, 20.0]), max_size=40),
    min_size=1,
    max_size=8,
).filter(any)


@settings(deadline=None)
@given(samples, st.sampled_from([0.01, 0.05, 0.1, 0.5]), st.sampled_from([0.9, 0.95, 0.99]))
def test_a_looser_limit_never_fares_worse(
    blocks: list[list[float]], allowed: float, confidence: float
) -> None:
    test = tail_test(pooled(blocks), allowed, confidence)
    assert test.near <= test.far <= test.remote
    uppers = [test.bounds(limit).upper for limit in np.linspace(0, 4000, 60)]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(uppers))


@settings(deadline=None)
@given(samples, st.sampled_from([0.01, 0.05, 0.5]), st.floats(0, 4000))
def test_percentile_bounds_are_the_share_test_turned_round(
    blocks: list[list[float]], allowed: float, limit: float
) -> None:
    test = tail_test(pooled(blocks), allowed, 0.95)
    lower, estimate, upper = test.percentile()
    assert lower <= estimate <= upper
    bounds = test.bounds(limit)
    assert (upper <= limit) == (bounds.upper <= allowed)
    assert (limit < lower) == (bounds.lower > allowed)


def test_a_limit_counts_as_remote_only_with_few_over_two_thirds_of_it() -> None:
    sample = pooled([[10.0] * 999, [100.0]])
    test = TailTest(sample, 0.05, 0.95, near=10, far=20, remote=1000)
    assert FEW * 0.05 >= 1 / 1000
    sizes = {9: 10, 11: 20, 14: 20, 16: 1000}
    for limit, size in sizes.items():
        assert test.bounds(limit).upper == pytest.approx(
            TailTest(sample, 0.05, 0.95, size, size, size).bounds(limit).upper
        )


def test_nearest_rank_leaves_at_most_the_allowed_share_above() -> None:
    assert nearest_rank(0.05, 300) == 284  # the 285th of 300
    assert nearest_rank(0.01, 50) == 49
    assert nearest_rank(round(1 - 0.9, 12), 10) == 8


def test_one_block_decides_nothing() -> None:
    test = tail_test(pooled([[5.0] * 900]), 0.05, 0.95)
    assert test.percentile() == (0, 5, math.inf)
    assert test.bounds(1e9).upper > 0.05
