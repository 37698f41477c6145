"""Which load multiples are replayed to bracket headroom."""

import math
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.bench.headroom import bracket
from advisor.measure.headroom import headroom
from advisor.terms.measurement import Measurement
from advisor.terms.target import Verdict
from tests.unit.advice.examples import MET, MISSED, UNDECIDED, measurement

LADDER = (0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)


class Truth:
    """A server that carries so much, and does not tell between `met_to` and `missed_from`."""

    def __init__(self, met_to: float, missed_from: float, void_above: float = math.inf) -> None:
        self._met_to, self._missed_from, self._void_above = met_to, missed_from, void_above
        self.visited: list[float] = []

    def at(self, multiple: float) -> Measurement:
        middle = math.sqrt(self._met_to * self._missed_from)
        verdict = UNDECIDED
        if multiple <= self._met_to:
            verdict = MET
        elif multiple >= self._missed_from:
            verdict = MISSED
        return measurement(verdict, multiple, estimate=1000.0 * multiple / middle)

    async def measure_at(self, multiple: float) -> Measurement | None:
        self.visited.append(multiple)
        return None if multiple > self._void_above else self.at(multiple)

    def bracketed(
        self,
        load: float = 1.0,
        ladder: tuple[float, ...] = LADDER,
        at_load: Measurement | None = None,
        to_beat: float | None = None,
    ) -> list[Measurement]:
        measured = at_load or self.at(load)
        found = at_once(bracket(ladder, load, measured, self.measure_at, to_beat))
        voids = {multiple for multiple in self.visited if multiple > self._void_above}
        assert [m.multiple for m in found] == sorted({load, *self.visited} - voids)
        return found


def at_once(run: Coroutine[Any, Any, list[Measurement]]) -> list[Measurement]:
    """Nothing here ever waits, so no event loop is needed."""
    with pytest.raises(StopIteration) as stopped:
        run.send(None)
    return cast(list[Measurement], stopped.value.value)


@given(st.floats(min_value=0.1, max_value=5.0), st.sampled_from(LADDER))
def test_the_answer_is_between_neighbours_after_few_visits(carries: float, load: float) -> None:
    truth = Truth(carries, math.nextafter(carries, math.inf))
    found = headroom(truth.bracketed(load))
    if carries < load:
        steps = [0.0, *LADDER]
        assert found.low == (max(multiple for multiple in steps if multiple <= carries) or None)
        assert found.high == min(multiple for multiple in steps if multiple > carries)
    elif carries >= LADDER[-1]:
        assert (found.low, found.high) == (LADDER[-1], None)
    else:
        assert found.low is not None
        assert found.high is not None
        # the widest step is from 0.25 to 0.5
        assert found.low <= carries < found.high < 1.2 * found.low
    assert len(truth.visited) <= math.ceil(math.log2(len(LADDER) + 1)) + 2
    assert len(set(truth.visited)) == len(truth.visited)
    assert load not in truth.visited


@pytest.mark.parametrize(
    ("met_to", "missed_from", "visited"),
    [
        (9.0, 9.1, [1.5, 2.0, 3.0]),
        # above the load until the ends are near: 1.34 is halfway from 1.2 to 1.5
        (1.2, 1.5, [1.5, 1.2, 1.34]),
        (0.5, 0.7, [0.5, 0.7]),
        (0.1, 0.2, [0.5, 0.25]),
    ],
)
def test_the_ladder_is_halved(met_to: float, missed_from: float, visited: list[float]) -> None:
    truth = Truth(met_to, missed_from)
    truth.bracketed()
    assert truth.visited == visited


def test_an_undecided_one_is_followed_by_its_estimate_and_stays_undecided() -> None:
    up = Truth(0.7, 4.0)  # the middle is 1.67: at 1.0 and 1.5 the estimate is within the limit
    found = up.bracketed()
    assert up.visited == [1.5, 2.0, 1.73, 1.61]
    assert [m.verdict for m in found] == [UNDECIDED] * 5
    assert headroom(found).low is None
    down = Truth(0.3, 1.3)  # the middle is 0.62
    assert [m.verdict for m in down.bracketed()] == [UNDECIDED] * 3
    assert down.visited == [0.5, 0.7]


def test_a_void_multiple_sends_the_search_down_and_leaves_no_measurement() -> None:
    truth = Truth(9.0, 9.1, void_above=1.3)
    found = truth.bracketed()
    assert truth.visited == [1.5, 1.2, 1.34]
    assert str(headroom(found)) == ">= 1.2"


def test_a_ladder_of_the_load_alone_needs_no_replay() -> None:
    truth = Truth(1.0, 1.1)
    assert [m.multiple for m in truth.bracketed(1.0, (1.0,))] == [1.0]
    assert truth.visited == []


def test_a_load_that_is_not_on_the_ladder_takes_its_place_on_it() -> None:
    truth = Truth(1.2, 1.21)
    # 1.2 is too near to it to be another
    assert str(headroom(truth.bracketed(1.1))) == "1.19 .. 1.28"


def test_a_missing_metric_never_goes_up() -> None:
    empty = measurement(UNDECIDED)
    judgement = replace(empty.judgements[0], estimate=None)
    missing = replace(empty, judgements=(judgement,))
    truth = Truth(9.0, 9.1)
    truth.bracketed(at_load=missing)
    assert missing.verdict is Verdict.UNDECIDED
    assert max(truth.visited) < 1.0


@pytest.mark.parametrize(
    ("carries", "to_beat", "visited"),
    [
        # provably worse: one replay tells
        (1.1, 1.5, [1.5]),
        # better: on from there
        (2.05, 1.5, [1.5, 2.0, 3.0, 2.45, 2.21]),
        (1.52, 1.5, [1.5, 2.0, 1.73, 1.61]),
        # no more than the job's load, or less than any multiple
        (1.52, 1.0, [1.5, 2.0, 1.73, 1.61]),
        (1.52, 0.1, [1.5, 2.0, 1.73, 1.61]),
        # between two multiples, and beyond all
        (1.85, 1.75, [1.75, 2.0, 1.87]),
        (1.6, 1.9, [1.9]),
        (1.6, 9.0, [3.0]),
        # it misses at the job's load: what others carry above that says nothing
        (0.6, 1.5, [0.5, 0.7]),
    ],
)
def test_what_is_to_be_beaten_is_tried_first(
    carries: float, to_beat: float, visited: list[float]
) -> None:
    truth = Truth(carries, math.nextafter(carries, math.inf))
    found = headroom(truth.bracketed(to_beat=to_beat))
    assert truth.visited == visited
    assert found.high is None or found.high > carries
    assert found.low is None or found.low <= carries


def test_who_is_undecided_at_what_is_to_be_beaten_is_looked_at_more_closely() -> None:
    truth = Truth(1.1, 1.6)
    truth.bracketed(to_beat=1.5)
    assert truth.visited[:2] == [1.5, 1.2]
