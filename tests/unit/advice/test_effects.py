"""What knobs do, on trials whose headroom is known."""

from dataclasses import replace

import pytest

from advisor.advice.effects import difference, knob_effects, untold
from advisor.terms.job import Objective, Trial
from advisor.terms.setting import Setting
from tests.unit.advice.examples import SPEC, trial
from tests.unit.advice.ladders import SEQS, TOKENS, carrying, flags, point

#: Half the batched tokens carry twice the load, whatever else is set.
SQUARE = [
    carrying(0, 1.0, flags(64, 2048)),
    carrying(1, 1.0, flags(128, 2048)),
    carrying(2, 2.0, flags(64, 1024)),
    carrying(3, 2.0, flags(128, 1024)),
]


def test_the_knob_that_does_it_all_and_the_one_that_does_nothing() -> None:
    first, second = knob_effects(SQUARE, SPEC)
    assert (first.knob, len(first.pairs), first.is_alike) == (TOKENS, 2, False)
    assert first.factor == pytest.approx(2.0)
    assert first.share == pytest.approx(1.0)
    assert (first.pairs[0].better, first.pairs[0].worse) == (1024, 2048)
    assert {pair.trials for pair in first.pairs} == {(2, 0), (3, 1)}
    assert (second.knob, len(second.pairs), second.is_alike) == (SEQS, 2, True)
    assert second.factor == pytest.approx(1.0)
    assert second.share == pytest.approx(0.0, abs=1e-9)


def test_one_step_of_two_explains_half() -> None:
    """Two knobs that give a factor of two each: half of the distance is either's."""
    trials = [*SQUARE[:2], carrying(2, 1.0, flags(64, 1024)), carrying(3, 2.0, flags(64, 512))]
    by_knob = {effect.knob: effect for effect in knob_effects(trials, SPEC)}
    assert {pair.trials for pair in by_knob[TOKENS].pairs} == {(3, 0), (3, 2), (0, 2)}
    assert by_knob[TOKENS].share == pytest.approx(1.0)
    corner = [SQUARE[0], carrying(1, 1.4, flags(128)), carrying(2, 1.96, flags(128, 1024))]
    assert [e.share for e in knob_effects(corner, SPEC)] == pytest.approx([0.5, 0.5])


def test_of_knobs_that_only_change_together_nothing_is_said() -> None:
    apart = [SQUARE[0], SQUARE[3]]
    assert knob_effects(apart, SPEC) == ()
    assert untold(apart, SPEC, ()) == (TOKENS, SEQS)
    assert untold(SQUARE, SPEC, knob_effects(SQUARE, SPEC)) == ()


@pytest.mark.parametrize(
    "beyond",
    [
        [carrying(0, 9.0, flags(64)), carrying(1, 7.0, flags(128))],
        [carrying(0, 0.1, flags(64)), carrying(1, 0.2, flags(128))],
        [trial(0, point(), of=flags(64)), trial(1, point(), of=flags(128))],
        [carrying(0, 1.0, flags(64)), trial(1, of=flags(128))],
    ],
    ids=["above all that was tried", "below it", "one multiple alone", "nothing measured"],
)
def test_what_was_not_measured_is_no_effect(beyond: list[Trial]) -> None:
    assert knob_effects(beyond, SPEC) == ()


def test_a_headroom_beyond_all_that_was_tried_is_still_more_than_one_below() -> None:
    (effect,) = knob_effects([carrying(0, 9.0, flags(64)), carrying(1, 1.0, flags(128))], SPEC)
    assert effect.pairs[0].better == 64
    assert effect.factor == pytest.approx(3.0)  # as far as it was tried


def test_where_all_trials_are_alike_nobody_has_a_part() -> None:
    (effect,) = knob_effects([carrying(0, 1.0, flags(64)), carrying(1, 1.05, flags(8))], SPEC)
    assert effect.is_alike
    assert effect.share is None


def test_other_objectives_are_compared_at_the_load() -> None:
    trials = [trial(0, point(1.0, 800.0, 4.0), of=flags(64)), trial(1, point(), of=flags(128))]
    (effect,) = knob_effects(trials, replace(SPEC, objective=Objective.LATENCY))
    assert effect.pairs[0].better == 128
    assert effect.factor == pytest.approx(800 / 500)  # ITL at half its limit is no further
    spec = replace(SPEC, objective=Objective.GOODPUT)
    assert [each.factor for each in knob_effects(trials, spec)] == pytest.approx([1.0])
    cut = trial(1, point(stopped=True), of=flags(128))
    assert knob_effects([trials[0], cut], spec) == ()


def test_a_checkpoint_and_a_flag_that_is_not_set_are_differences_too() -> None:
    other = Setting.of("other", dict(flags().flags))
    assert difference(flags(), other) == "model"
    assert difference(flags(), Setting.of("m", {SEQS: 64})) == TOKENS
    assert difference(flags(), flags()) is None
    assert difference(flags(), Setting.of("other", {SEQS: 64})) is None
