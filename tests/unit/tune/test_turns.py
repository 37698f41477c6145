"""Whose turn a round is, and which of its launches soaks."""

from dataclasses import replace

import pytest

from advisor.terms.job import Phase, Soak, Trial, TrialResult
from advisor.terms.measurement import Headroom
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.tune.confirmation import finalist_of, steps_of
from tests.unit.tune.jobs import SEQS, SPEC, WINDOWS

THEIRS, OURS = Setting.of("m", {SEQS: 256}), Setting.of("m", {SEQS: 8})
MEASURED = TrialState.MEASURED


def finalist(low: float) -> Trial:
    result = TrialResult(MEASURED, headroom=Headroom(low, None, 1.3))
    return Trial(4, Phase.SEARCH, OURS, "tpe", result)


def confirmed(round_: int, of: Setting, soak: Soak | None) -> Trial:
    result = TrialResult(MEASURED, soak=soak)
    return Trial(9, Phase.CONFIRM, of, "confirmation", result, round_, 2)


DEAD, ALIVE = Soak(5, trouble="died"), Soak(5)
A, B, C = (
    replace(finalist(2.0), number=number, setting=Setting.of("m", {SEQS: number}))
    for number in range(3)
)


@pytest.mark.parametrize(
    ("ranked", "dead", "expected"),
    [
        ([], [], [None, None, None]),
        ([A], [], [A, A, A]),
        ([A, B], [], [A, B, B]),
        ([A, B, C], [], [A, B, C]),
        # who died is passed over, and nobody else is
        ([A], [(0, A)], [A, None, None]),
        ([A, B], [(0, A)], [A, B, B]),
        ([A, B, C], [(0, A)], [A, B, C]),
        ([A, B, C], [(1, B)], [A, B, C]),
        ([A, B], [(1, B)], [A, B, A]),
        ([A, B], [(0, A), (1, B)], [A, B, None]),
    ],
)
def test_whom_a_round_confirms(
    ranked: list[Trial], dead: list[tuple[int, Trial]], expected: list[Trial | None]
) -> None:
    trials = [confirmed(number, each.setting, DEAD) for number, each in dead]
    # also when a later round is over: a restart must not change an earlier one
    assert [finalist_of(number, ranked, trials) for number in range(3)] == expected


def test_who_survives_or_was_not_soaked_stays() -> None:
    for soak in (ALIVE, None):
        assert finalist_of(1, [A], [confirmed(0, A.setting, soak)]) is A


def test_the_finalists_last_launch_of_a_round_soaks() -> None:
    steps = steps_of(0, finalist(2.0), THEIRS, WINDOWS, SPEC)
    assert [(s.repeat, s.setting) for s in steps if s.soaks] == [(2, OURS)]
    assert not any(s.soaks for s in steps_of(0, None, THEIRS, WINDOWS, SPEC))


def test_a_soak_knows_how_many_were_open_on_other_launches_of_its_round() -> None:
    step = steps_of(1, finalist(2.0), THEIRS, WINDOWS, SPEC)[-1]
    assert step.setting == OURS

    def opened(most: int | None, round_: int = 1, of: Setting = OURS) -> Trial:
        result = TrialResult(MEASURED, most_open=most)
        return Trial(3, Phase.CONFIRM, of, "confirmation", result, round_, 0)

    assert step.most_open([]) == 1
    assert step.most_open([opened(None), opened(7), opened(4)]) == 7
    others = [opened(9, round_=0), opened(8, of=THEIRS), replace(opened(6), phase=Phase.SEARCH)]
    assert step.most_open([*others, opened(3)]) == 3
