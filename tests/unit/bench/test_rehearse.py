"""A profile rehearsed in the simulator."""

import pytest

from advisor.bench.rehearse import SHARES, WINDOWS, Stage, played, rehearse
from advisor.profile.columns import Columns
from advisor.profile.window import split
from advisor.sim.config import resolve
from advisor.sim.hardware import hardware
from advisor.terms.calibration import Calibration
from advisor.terms.profile import Plan, Profile, Request
from advisor.terms.setting import Setting
from advisor.terms.target import Metric
from tests.unit.profile.builders import S, profile_of

CONFIG = resolve(Setting.of("llama-3.1-8b", {}, ()), hardware("h100-sxm"))


def load() -> Profile:
    """Every tenth prompt is long."""
    return profile_of([Request(i * S // 5, 4000 if i % 10 == 0 else 200, 12) for i in range(450)])


def rehearsal(load_multiple: float) -> Calibration:
    profile = load()
    windows = split(profile, windows=3, rounds=2, gap_ns=S)
    asked = ((Metric.TTFT, 95.0), (Metric.ITL, 99.0))
    return rehearse(profile, windows, CONFIG, asked, (0.95,), load=load_multiple, seed=3)


@pytest.fixture(name="found", scope="module")
def _found() -> Calibration:
    return rehearsal(1.0)


def test_every_percentile_is_rehearsed_from_light_load_to_near_saturation(
    found: Calibration,
) -> None:
    assert (found.model, found.hardware, found.windows) == ("llama-3.1-8b", "h100-sxm", WINDOWS)
    assert [(each.metric, each.percentile) for each in found.rehearsed] == [
        (Metric.TTFT, 95.0),
        (Metric.ITL, 99.0),
    ]
    for each in found.rehearsed:
        multiples = [rung.multiple for rung in each.rungs]
        assert 1.0 in multiples
        assert multiples == sorted(multiples)
        assert len(multiples) >= len(SHARES)
        for rung in each.rungs:
            assert 0 <= rung.upper_ms <= rung.truth_ms <= rung.lower_ms
    waits = found.rehearsed[0].rungs
    assert waits[-1].truth_ms > waits[0].truth_ms


def test_the_same_profile_and_plan_find_the_same(found: Calibration) -> None:
    assert rehearsal(1.0) == found


def test_capacity_is_where_more_load_is_not_served() -> None:
    profile = load()
    windows = split(profile, windows=3, rounds=2, gap_ns=S)
    most = Stage(profile, windows, CONFIG, 3).capacity()

    def latest_ms(factor: float) -> float:
        plan = Plan(windows.search[0], most * factor, 1, windows.gap_ns)
        traces = played(Columns.of(profile), plan, CONFIG, 1)
        last = traces.event_ns[traces.event_offsets[1:] - 1]
        return float((last - traces.planned_ns).max()) / 1e6

    assert latest_ms(1.5) > 2 * latest_ms(0.8)
