"""When no flag can help, with the figure that shows it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from advisor.advice.limits import alike_line, capacity_line, floor_line, limit_lines
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Trial
from tests.unit.advice.examples import ERRORS, SPEC, TTFT, trial
from tests.unit.advice.ladders import ITL, TARGETS, carrying, point


def slow(number: int, ttft_ms: Sequence[float]) -> Trial:
    """TTFT at a quarter, half and all of the load."""
    points = (point(m, t) for m, t in zip((0.25, 0.5, 1.0), ttft_ms, strict=True))
    return trial(number, *points)


FLAT = [slow(1, (3000, 3100, 9000)), slow(2, (2600, 2700, 2900))]


def test_a_ttft_that_less_load_does_not_lower_is_the_prompts() -> None:
    assert floor_line(TTFT, FLAT, SPEC) == (
        "No flag tried brings TTFT p95 within its limit of 1000 ms, even at the least load tried "
        "(2 settings): at 0.25x it is at least 1300 ms. More load hardly adds to it (2600 ms "
        "there, 2900 ms at 1x), so no queue makes it: it is a matter of prompt length or "
        "hardware"
    )


def test_a_ttft_that_grows_with_the_load_has_no_cause_named() -> None:
    queued = [slow(1, (2600, 5000, 9000))]
    assert floor_line(TTFT, queued, SPEC) == (
        "No flag tried brings TTFT p95 within its limit of 1000 ms, even at the least load tried "
        "(1 setting): at 0.25x it is at least 1300 ms"
    )


def gaps(number: int, itl_ms: float, median_ms: float) -> Trial:
    points = (point(m, itl_ms=itl_ms, itl_p50_ms=median_ms) for m in (0.25, 1.0))
    return trial(number, *points)


def test_gaps_of_which_the_median_is_over_the_limit_are_decoding() -> None:
    line = floor_line(ITL, [gaps(1, 120, 60), gaps(2, 100, 55)], SPEC)
    assert line is not None
    assert line.endswith(
        "at 0.25x it is at least 50 ms, and the median 55 ms: decoding itself takes that long "
        "here, a matter of hardware, of fewer bits or of a smaller model"
    )
    stalls = floor_line(ITL, [gaps(1, 120, 60), gaps(2, 100, 39)], SPEC)
    assert stalls is not None
    assert stalls.endswith("at 0.25x it is at least 50 ms")


@pytest.mark.parametrize(
    "trials",
    [
        [*FLAT, slow(3, (900, 2000, 3000))],
        [*FLAT, trial(3, point(1.0, 3000))],
        [trial(3)],
        [],
    ],
    ids=["one meets it", "one was not tried below the load", "not measured", "nothing"],
)
def test_a_floor_is_that_of_every_setting_or_none(trials: list[Trial]) -> None:
    assert floor_line(TTFT, trials, SPEC) is None


def test_failures_have_no_floor_in_ms() -> None:
    assert floor_line(ERRORS, FLAT, SPEC) is None


def test_so_many_servers_would_carry_it() -> None:
    trials = [carrying(1, 0.3), carrying(2, 0.6), carrying(3, 0.7)]
    assert capacity_line(trials, SPEC) == (
        "It is a matter of capacity: the best setting tried, trial 2, carries 0.5x of the "
        "recorded load; 2 such servers would carry 1x (estimated, the load shared evenly)"
    )
    line = capacity_line(trials, replace(SPEC, load=1.6))
    assert line is not None
    assert "4 such servers would carry 1.6x" in line
    assert capacity_line([carrying(1, 0.3)], SPEC) is None
    assert capacity_line([carrying(1, 1.2)], SPEC) is None
    assert capacity_line([], SPEC) is None


def test_settings_that_all_carry_the_same() -> None:
    same = [carrying(1, 1.25), carrying(2, 1.3), carrying(3, 1.2)]
    assert alike_line(same, SPEC) == (
        "All 3 settings measured are alike: by headroom the best is 1.08 times as good as the "
        "worst, which launches of one setting differ by; more than that is a matter of hardware, "
        "of more servers or of shorter prompts"
    )
    assert alike_line([*same, carrying(4, 1.6)], SPEC) is None
    assert alike_line(same[:2], SPEC) is None
    assert alike_line([carrying(n, 9.0) for n in range(3)], SPEC) is None
    assert alike_line([*same, trial(4, point())], SPEC) is None


def test_a_limit_is_named_only_where_no_setting_helps() -> None:
    trials = [carrying(n, 0.6) for n in range(3)]
    said = {o: limit_lines(o, trials, TARGETS, SPEC) for o in AdviceOutcome}
    assert [line.partition(":")[0] for line in said.pop(AdviceOutcome.NONE_MEETS)] == [
        "It is a matter of capacity"
    ]
    assert [line[:3] for line in said.pop(AdviceOutcome.KEEP_CURRENT)] == ["All"]
    assert set(map(tuple, said.values())) == {()}
