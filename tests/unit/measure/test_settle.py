"""What more load, or more pairs, would settle: held against the arithmetic of the bounds."""

from dataclasses import replace

import pytest

from advisor.measure.compare import compare_rates
from advisor.measure.settle import load_factor, pairs_needed
from advisor.terms.measurement import Judgement
from advisor.terms.target import Verdict, parse_target

TARGET = parse_target("ttft:p95<=1s")
OPEN = Judgement(TARGET, Verdict.UNDECIDED, 900.0, 1.0, 2e3, 0.03, 0.02, 0.07, 600, 18, 0.95)


def test_the_way_to_the_bound_shrinks_with_the_root_of_the_load() -> None:
    # 4 points above the share, 2 allowed: half the way is four times the load
    assert load_factor(OPEN) == pytest.approx(4)
    # 3 points below a share of 7 %, 2 points over what is allowed
    over = replace(OPEN, share_over=0.07, share_over_lower=0.04, share_over_upper=0.12)
    assert load_factor(over) == pytest.approx(2.25)


def test_where_nothing_was_over_the_bound_shrinks_with_the_load() -> None:
    none = replace(OPEN, share_over=0.0, share_over_lower=0.0, share_over_upper=0.15)
    assert load_factor(none) == pytest.approx(3)


def test_no_figure_where_none_can_be_told() -> None:
    for verdict in (Verdict.MET, Verdict.MISSED):
        assert load_factor(replace(OPEN, verdict=verdict)) is None
    assert load_factor(replace(OPEN, share_over=None)) is None
    assert load_factor(replace(OPEN, share_over=TARGET.allowed_share)) is None
    assert load_factor(replace(OPEN, share_over_upper=None)) is None
    # an upper bound of all is none
    assert load_factor(replace(OPEN, share_over_upper=1.0)) is None
    assert load_factor(replace(OPEN, share_over=0.07, share_over_lower=None)) is None


def test_less_than_there_was_is_never_asked_for() -> None:
    within = replace(OPEN, share_over_upper=0.045)
    assert load_factor(within) == 1.0


def test_pairs_grow_with_the_square_of_what_the_interval_lacks() -> None:
    assert pairs_needed(0.5, 1.0, 3) == 3
    # as far beyond 1 as the ratio is below it: twice the reach, four times the pairs
    assert pairs_needed(0.5, 2.0, 3) == 12
    assert pairs_needed(2.0, 0.5, 3) == 12


def test_what_is_shown_already_needs_none_and_no_ratio_no_number() -> None:
    assert pairs_needed(0.5, 0.9, 3) is None
    assert pairs_needed(2.0, 1.1, 3) is None
    assert pairs_needed(1.0, 1.3, 3) is None


def test_so_many_pairs_of_the_same_spread_do_show_it() -> None:
    pairs = [(110.0, 100.0), (99.0, 100.0), (125.0, 100.0)]
    few = compare_rates(pairs, 0.95)
    assert few is not None
    assert few.lower_ratio < 1 < few.ratio
    needed = pairs_needed(few.ratio, few.lower_ratio, few.pairs)
    assert needed is not None
    more = compare_rates(pairs * (-(-needed // 3)), 0.95)
    assert more is not None
    assert more.lower_ratio > 1
