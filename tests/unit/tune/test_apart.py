"""Whether each window by itself shows the difference."""

from collections.abc import Sequence

from advisor.measure.curves import Curves, curves
from advisor.terms.profile import Plan
from advisor.tune.apart import are_apart
from advisor.tune.confirmation import round_windows
from tests.contract.scripted_bench import Dials, traces
from tests.unit.tune.jobs import SPEC, TARGETS, WINDOWS

#: TTFT of 1000 ms is the limit.
GOOD, NEARER, OVER = 300.0, 700.0, 3000.0


def arm(ttft_ms: Sequence[float]) -> list[Curves]:
    """A launch for each window."""
    plans = [Plan(window, 1.0, 1, 0) for window in round_windows(WINDOWS, SPEC, 0)]
    each = zip(ttft_ms, plans, strict=False)
    return [curves(traces(Dials(ttft_ms=ms), plan)) for ms, plan in each]


def apart(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    pairs = list(zip(arm(ours), arm(theirs), strict=False))
    return are_apart(pairs, TARGETS, SPEC.confidence)


def test_apart_where_each_window_shows_it() -> None:
    assert apart([GOOD] * 3, [OVER] * 3)
    assert not apart([OVER] * 3, [GOOD] * 3)
    assert not apart([GOOD] * 3, [GOOD] * 3)
    assert not apart([OVER] * 3, [2 * OVER] * 3)


def test_not_apart_where_one_launch_does_as_the_other_setting() -> None:
    assert not apart([GOOD] * 3, [OVER, OVER, GOOD])
    assert not apart([GOOD, OVER, GOOD], [OVER] * 3)
    assert not apart([GOOD, GOOD, OVER], [OVER, OVER, GOOD])


def test_one_of_three_windows_may_be_light_if_it_shows_the_order() -> None:
    assert apart([GOOD] * 3, [OVER, OVER, NEARER])
    assert not apart([GOOD] * 3, [OVER, NEARER, NEARER])
    # by less than launches differ by
    assert not apart([NEARER] * 3, [OVER, OVER, 1.05 * NEARER])


def test_of_one_pair_or_two_none_may_be_light() -> None:
    assert apart([GOOD], [OVER])
    assert not apart([GOOD], [NEARER])
    assert not apart([GOOD] * 2, [OVER, NEARER])
    assert not apart([], [])
