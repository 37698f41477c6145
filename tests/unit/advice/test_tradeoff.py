"""The settings that no other one beats in everything."""

import math
from dataclasses import replace

from advisor.advice.tradeoff import trade_off
from advisor.terms.target import Metric, parse_target
from tests.unit.advice.examples import ERRORS, SPEC, trial
from tests.unit.advice.ladders import TARGETS, flags, point

FAST_FIRST = trial(0, point(1.0, 100, 50), point(2.0, 150, 60), of=flags())
SMOOTH = trial(1, point(1.0, 300, 20), of=flags(tokens=512))
BEATEN = trial(2, point(1.0, 400, 60), of=flags(tokens=8192))
CUT = trial(3, point(1.0, 50, 10, stopped=True), of=flags(tokens=256))
DEAD = trial(4)
ALL = [FAST_FIRST, SMOOTH, BEATEN, CUT, DEAD]


def test_the_curve_is_what_nothing_beats_in_all_three() -> None:
    found = trade_off(ALL, TARGETS, SPEC, flags())
    assert [(s.trial, s.ttft_ms, s.itl_ms, s.on_curve) for s in found.spots] == [
        (0, 100, 50, True),
        (1, 300, 20, True),
        (2, 400, 60, False),
    ]
    assert [s.changes for s in found.spots] == [
        (),
        ("--max-num-batched-tokens 2048 -> 512",),
        ("--max-num-batched-tokens 2048 -> 8192",),
    ]
    assert (found.multiple, found.ttft_percentile, found.itl_percentile) == (1.0, 95, 99)


def test_more_headroom_is_on_the_curve_though_both_latencies_are_worse() -> None:
    carries = trial(2, point(1.0, 400, 35), point(3.0, 500, 36), of=flags(tokens=8192))
    alone = [FAST_FIRST, trial(1, point(1.0, 300, 20), point(2.0, 2000, 90)), carries]
    assert all(spot.on_curve for spot in trade_off(alone, TARGETS, SPEC, None).spots)


def test_equal_settings_are_both_on_the_curve() -> None:
    twins = [trial(n, point(1.0, 100, 50), of=flags(n)) for n in (1, 2)]
    assert [spot.on_curve for spot in trade_off(twins, TARGETS, SPEC, None).spots] == [True, True]


def test_percentiles_are_those_of_the_targets_and_else_the_usual_ones() -> None:
    usual = trade_off([SMOOTH], (ERRORS,), SPEC, None)
    assert (usual.spots[0].ttft_ms, usual.spots[0].itl_ms) == (300, 20)
    other = trade_off([SMOOTH], (parse_target("ttft:p50<=1s"), ERRORS), SPEC, None)
    assert (other.ttft_percentile, other.spots[0].ttft_ms) == (50, 150)
    # nobody asked for that one when the job was measured
    assert trade_off([SMOOTH], (parse_target("ttft:p90<=1s"),), SPEC, None).spots == ()


def test_a_setting_without_gaps_is_not_on_the_map_and_failures_are_at_infinity() -> None:
    point_ = point()
    none = tuple(p for p in point_.percentiles if p.metric is Metric.TTFT)
    gapless = trial(1, replace(point_, percentiles=none, judgements=point_.judgements[:1]))
    assert trade_off([gapless], TARGETS, SPEC, None).spots == ()
    failing = trial(1, point(1.0, math.inf, math.inf))
    (spot,) = trade_off([failing], TARGETS, SPEC, None).spots
    assert (spot.ttft_ms, spot.itl_ms) == (math.inf, math.inf)
