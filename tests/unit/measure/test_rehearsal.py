"""From simulated windows to how far bounds are off."""

import math

import numpy as np
import pytest

from advisor.measure.curves import Curves, curves
from advisor.measure.margin import margin_of
from advisor.measure.rehearsal import rehearse_bounds
from advisor.terms.calibration import Rehearsed
from advisor.terms.target import Metric
from tests.unit.measure.make import Req, steady, traces

ASKED = ((Metric.TTFT, 95.0),)
LEVELS = (0.95, 0.98)


def windows(count: int, slow_share: float, seed: int = 1) -> list[Curves]:
    """Of 200 requests each; a window is wholly slow or wholly fast, so only windows count."""
    rng = np.random.default_rng(seed)
    made = []
    for slow in rng.random(count) < slow_share:
        ttft = rng.lognormal(4, 0.3, 200) * (20 if slow else 1)
        requests = [Req(i * 10.0, [i * 10.0 + t]) for i, t in enumerate(ttft)]
        made.append(curves(traces(requests, 0, 2000)))
    return made


def rehearsed(count: int, slow_share: float, seed: int = 1) -> list[Rehearsed]:
    return list(rehearse_bounds({1.0: windows(count, slow_share)}, ASKED, LEVELS, 3, 9, seed))


def test_even_windows_need_next_to_no_margin() -> None:
    for found in rehearsed(20, 0.0):
        (rung,) = found.rungs
        assert rung.truth_ms == pytest.approx(np.exp(4 + 0.3 * 1.645), rel=0.05)
        assert rung.truth_ms / rung.upper_ms < 1.05
        assert rung.lower_ms / rung.truth_ms < 1.05


def test_where_three_windows_often_show_nothing_the_margin_is_as_large_as_what_they_miss() -> None:
    for found in rehearsed(20, 0.2):
        (rung,) = found.rungs
        assert rung.truth_ms > 500  # a fifth of all is slow
        # half of the pools have no slow window, and no arithmetic on them could tell
        assert rung.truth_ms / rung.upper_ms > 5


def test_a_load_whose_truth_nobody_knows_does_not_spoil_the_lighter_ones() -> None:
    runs = {1.0: windows(20, 0.0), 2.0: windows(20, 0.2)}
    for found in rehearse_bounds(runs, ASKED, LEVELS, 3, 9, 1):
        light, heavy = found.rungs
        assert heavy.truth_ms / heavy.upper_ms > 4
        tight = margin_of(found).tight
        assert tight.at(light.truth_ms * 1e6) > 0.9 * light.truth_ms * 1e6
        # between the two nothing is known but what the lighter one shows
        assert tight.at(heavy.truth_ms * 1e6) == tight.at(light.truth_ms * 1e6)


def test_a_stricter_level_leaves_no_more_room() -> None:
    at95, at98 = rehearsed(20, 0.05)
    assert (at95.confidence, at98.confidence) == LEVELS
    ratio = [found.rungs[0].upper_ms / found.rungs[0].truth_ms for found in (at95, at98)]
    assert all(0 < each <= 1 for each in ratio)


def test_a_shorter_recording_knows_its_own_truth_less_well() -> None:
    runs = {1.0: windows(24, 0.3)}
    factors = []
    for recorded in (3, 9, 100):
        (found,) = rehearse_bounds(runs, ASKED, (0.95,), 3, recorded, 1)
        factors.append(found.rungs[0].truth_ms / found.rungs[0].upper_ms)
    assert factors[0] >= factors[1] >= factors[2] >= 1


def test_the_same_seed_finds_the_same() -> None:
    assert rehearsed(8, 0.2, seed=5) == rehearsed(8, 0.2, seed=5)


def test_rungs_stand_in_order_of_their_load() -> None:
    runs = {2.0: windows(6, 0.0, 2), 0.5: windows(6, 0.0, 3)}
    found, _ = rehearse_bounds(runs, ASKED, LEVELS, 3, 9, 1)
    assert [rung.multiple for rung in found.rungs] == [0.5, 2.0]


def test_failures_in_a_few_windows_leave_bounds_and_truths_that_are_infinite() -> None:
    runs = windows(18, 0.0) + [curves(steady(200, [60], fail_every=3))] * 2
    (found,) = rehearse_bounds({1.0: runs}, ASKED, (0.95,), 3, 9, 1)
    (rung,) = found.rungs
    assert 0 <= rung.upper_ms <= rung.truth_ms < math.inf
    assert not math.isnan(rung.lower_ms)


def test_a_load_without_a_finite_percentile_is_no_rung() -> None:
    failing = [curves(steady(50, [20], fail_every=2))] * 4
    one_token = [curves(steady(50, [20], tokens=1))] * 4
    asked = ((Metric.TTFT, 95.0), (Metric.ITL, 99.0))
    found = rehearse_bounds({1.0: failing}, asked[:1], (0.95,), 3, 9, 1)
    assert [each.rungs for each in found] == [()]
    found = rehearse_bounds({1.0: one_token}, asked, (0.95,), 3, 9, 1)
    assert [len(each.rungs) for each in found] == [1, 0]
