"""Limits moved as far as a rehearsal says that bounds are off."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measure.judge import judge, margin_for
from advisor.measure.margin import MOST_FACTOR, Margin, margin_of
from advisor.terms.calibration import Calibration, Rehearsed, Rung
from advisor.terms.measurement import Judgement
from advisor.terms.target import Metric, Target, Unit, Verdict, parse_target
from tests.unit.measure.test_judge import random_replays

MS = 1_000_000


def rehearsed(*rungs: tuple[float, float, float]) -> Rehearsed:
    """Each (truth, upper, lower) in ms."""
    found = tuple(Rung(float(i), *rung) for i, rung in enumerate(rungs))
    return Rehearsed(Metric.TTFT, 95.0, 0.95, 0.95, found)


#: Calm: the bounds hold. Busy: uppers fall to half of the truth.
LADDER = rehearsed((100, 100, 100), (400, 200, 480))


def test_without_a_rehearsal_limits_stay() -> None:
    for margin in (Margin(), margin_of(None)):
        assert (margin.tight.at(7.0), margin.loose.at(7.0)) == (7.0, 7.0)
        assert (margin.upper(7.0), margin.lower(7.0)) == (7.0, 7.0)
        assert margin.upper(math.inf) == math.inf


def test_a_limit_is_judged_as_the_rungs_beside_it_say() -> None:
    tight = margin_of(LADDER).tight
    assert tight.at(100 * MS) == pytest.approx(100 * MS)
    assert tight.at(400 * MS) == pytest.approx(200 * MS)
    # half-way in logarithms, so half of the logarithm of the factor
    assert tight.at(200 * MS) == pytest.approx(200 * MS / math.sqrt(2))
    # beyond the rungs their factors stay
    assert tight.at(50 * MS) == pytest.approx(50 * MS)
    assert tight.at(800 * MS) == pytest.approx(400 * MS)
    assert margin_of(LADDER).loose.at(400 * MS) == pytest.approx(480 * MS)


def test_the_percentiles_bound_moves_the_other_way() -> None:
    margin = margin_of(LADDER)
    assert margin.upper(200 * MS) == pytest.approx(400 * MS)
    assert margin.lower(480 * MS) == pytest.approx(400 * MS)


def test_where_pools_show_next_to_nothing_a_limit_counts_as_the_last_one_in_reach() -> None:
    ladder = rehearsed((100, 90, 100), (400, 400 / MOST_FACTOR - 1, 400), (900, 800, 900))
    margin = margin_of(ladder)
    assert margin.tight.at(1e15) == pytest.approx(90 * MS)
    assert margin.upper(91 * MS) == math.inf
    nowhere = margin_of(rehearsed((100, 10, 100)))
    assert nowhere.tight.at(1e15) == 0
    assert nowhere.upper(1.0) == math.inf


rungs = st.lists(
    st.tuples(st.floats(1, 1e4), st.floats(0.5, 2e4), st.floats(0.5, 2e4)), min_size=1, max_size=5
)


@given(rungs, st.lists(st.floats(1e3, 1e12), min_size=2, max_size=8).map(sorted))
def test_no_limit_gains_and_a_looser_one_never_fares_worse(
    found: list[tuple[float, float, float]], limits: list[float]
) -> None:
    margin = margin_of(rehearsed(*found))
    for limit in limits:
        assert margin.tight.at(limit) <= limit * (1 + 1e-9)
        assert margin.loose.at(limit) >= limit * (1 - 1e-9)
    for curve in (margin.tight, margin.loose):
        judged = [curve.at(limit) for limit in limits]
        assert all(a <= b * (1 + 1e-9) for a, b in pairwise(judged))


@given(rungs, st.floats(1e3, 1e12), st.floats(1e3, 1e12))
def test_a_bound_within_the_limit_is_a_limit_judged_at_the_bound(
    found: list[tuple[float, float, float]], bound: float, limit: float
) -> None:
    margin = margin_of(rehearsed(*found))
    if margin.upper(bound) <= limit * (1 - 1e-6):
        assert bound <= margin.tight.at(limit) * (1 + 1e-9)
    if bound <= margin.tight.at(limit) * (1 - 1e-6):
        assert margin.upper(bound) <= limit * (1 + 1e-9)


def calibration(*levels: float) -> Calibration:
    found = tuple(
        Rehearsed(Metric.TTFT, 95.0, level, level, (Rung(1.0, 100.0, 50.0, 100.0),))
        for level in levels
    )
    return Calibration("m", "paper", 20, found)


def test_the_level_that_is_at_least_as_strict_is_taken() -> None:
    known = calibration(0.95, 0.98)
    for asked, found in ((0.9, 0.95), (0.95, 0.95), (0.96, 0.98), (0.999, 0.98)):
        rehearsed_at = known.of(Metric.TTFT, 95.0, asked)
        assert rehearsed_at is not None
        assert rehearsed_at.confidence == found
    assert known.of(Metric.TTFT, 99.0, 0.95) is None
    assert margin_for(parse_target("itl:p99<=1s"), 0.95, known) == Margin()


def test_a_verdict_needs_the_margin_that_the_rehearsal_asks_for() -> None:
    sample = random_replays(1)  # p95 TTFT about 173 ms
    target = parse_target("ttft:p95<=300ms")
    plain, wary = (judge(sample, target, 0.95, known) for known in (None, calibration(0.95)))
    assert (plain.verdict, wary.verdict) == (Verdict.MET, Verdict.UNDECIDED)
    assert plain.upper is not None
    assert wary.upper == pytest.approx(2 * plain.upper)
    assert (wary.estimate, wary.share_over) == (plain.estimate, plain.share_over)
    assert wary.share_over_upper is not None
    assert wary.share_over_upper > target.allowed_share
    looser = judge(sample, parse_target("ttft:p95<=600ms"), 0.95, calibration(0.95))
    assert looser.verdict is Verdict.MET


def test_a_percentile_that_was_not_rehearsed_is_met_where_a_harder_one_is() -> None:
    sample, known = random_replays(1), calibration(0.95)

    def judged(text: str) -> Judgement:
        return judge(sample, parse_target(text), 0.95, known)

    for limit in ("300ms", "600ms"):
        harder, easier = judged(f"ttft:p95<={limit}"), judged(f"ttft:p94<={limit}")
        assert easier.verdict is harder.verdict
        assert easier.upper == harder.upper
    # beyond what was rehearsed, and of another metric, nothing is known to be met
    for text in ("ttft:p96<=600ms", "e2e:p50<=1000s"):
        alone = judged(text)
        assert (alone.verdict, alone.upper) == (Verdict.UNDECIDED, math.inf)
    assert judged("ttft:p96<=1ms").verdict is Verdict.MISSED


@given(st.floats(50, 99.9), st.floats(50, 99.9), st.floats(100, 1_000))
def test_a_harder_percentile_is_never_met_where_an_easier_one_is_not(
    one: float, other: float, limit_ms: float
) -> None:
    sample, known = random_replays(1), calibration(0.95)
    easier, harder = (
        judge(sample, Target(Metric.TTFT, p, limit_ms, Unit.MS), 0.95, known).verdict
        for p in sorted((one, other))
    )
    assert harder is not Verdict.MET or easier is Verdict.MET
