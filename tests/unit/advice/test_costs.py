"""Which target ends the headroom, and what there would be without it."""

from dataclasses import replace

import pytest

from advisor.advice.costs import cost_line, target_costs
from advisor.terms.job import Objective
from tests.unit.advice.examples import ERRORS, SPEC, TTFT, UNDECIDED, judged, trial
from tests.unit.advice.ladders import ITL, carrying, flags, point

#: TTFT would do at 3x, ITL ends at 1.5x.
ABOUT = trial(
    8, point(1.0, 300, 36), point(1.5, 400, 38), point(2.0, 500, 50), point(3.0, 900, 70)
)


def test_the_target_nearest_to_its_limit_and_its_price() -> None:
    ttft, itl, errors = target_costs(ABOUT, [ABOUT], SPEC)
    assert (ttft.target, itl.target, errors.target) == (TTFT, ITL, ERRORS)
    assert [cost.multiple for cost in (ttft, itl, errors)] == [1.5] * 3
    assert [cost.used for cost in (ttft, itl, errors)] == pytest.approx([0.4, 0.95, 0.0])
    assert [cost.nearest for cost in (ttft, itl, errors)] == [False, True, False]
    assert (str(itl.without), itl.without_trial) == (">= 3", 8)
    # the other two cost nothing: ITL is over its limit at 2x with or without them
    assert str(ttft.without) == str(errors.without) == "1.5 .. 2"
    assert cost_line((ttft, itl, errors), [ABOUT]) == (
        "itl:p99<=40ms ends the headroom, 95 % used at 1.5x: without it trial 8 would carry >= 3 "
        "times the recorded load, by the search's replays"
    )


def test_without_a_target_another_setting_may_be_the_best() -> None:
    other = trial(9, point(1.0, 100, 90), point(3.0, 200, 95), of=flags())
    short = replace(
        ABOUT, result=replace(ABOUT.result, measurements=ABOUT.result.measurements[:3])
    )
    itl = target_costs(short, [short, other], SPEC)[1]
    assert (str(itl.without), itl.without_trial) == (">= 3", 9)


def test_what_another_trial_carries_in_any_case_is_no_price() -> None:
    other = carrying(9, 9.0, itl_ms=20.0)
    costs = target_costs(ABOUT, [ABOUT, other], SPEC)
    assert cost_line(costs, [ABOUT]) is not None
    assert cost_line(costs, [ABOUT, other]) is None


def test_a_price_that_was_not_seen_is_not_named() -> None:
    """The replay at 2x was stopped for ITL before TTFT could be judged."""
    cut = point(2.0, 500, 50, stopped=True)
    cut = replace(cut, judgements=(judged(UNDECIDED, TTFT, 500.0), *cut.judgements[1:]))
    about = trial(8, point(1.0, 300, 36), point(1.5, 400, 38), cut)
    costs = target_costs(about, [about], SPEC)
    assert str(costs[1].without) == ">= 1.5"
    assert cost_line(costs, [about]) is None


def test_where_nothing_is_carried_the_furthest_over_its_limit_is_told() -> None:
    nearest = carrying(3, 0.6)
    costs = target_costs(nearest, [nearest], SPEC)
    assert [cost.multiple for cost in costs] == [1.0] * 3
    assert costs[0].nearest
    assert costs[0].used == pytest.approx(1 / 0.6)
    line = cost_line(costs, [nearest])
    assert line is not None
    assert "167 % used at 1x: without it trial 3 would carry >= 3 times" in line


def test_other_objectives_have_no_headroom_to_lose() -> None:
    spec = replace(SPEC, objective=Objective.LATENCY)
    assert {cost.without for cost in target_costs(ABOUT, [ABOUT], spec)} == {None}


def test_without_a_measurement_or_an_estimate_nothing_is_said() -> None:
    assert target_costs(trial(1), [], SPEC) == ()
    point_ = point()
    gone = replace(point_.judgements[0], estimate=None)
    empty = trial(1, replace(point_, judgements=(gone,)))
    (cost,) = target_costs(empty, [empty], SPEC)
    assert (cost.used, cost.nearest, cost.without) == (None, False, None)
    assert cost_line((cost,), [empty]) is None
