"""Decisions on cases made by hand; whole jobs are in the tests of the conductor."""

from dataclasses import replace

from advisor.advice.advise import advise, blocked
from advisor.terms.advice import AdviceOutcome
from advisor.terms.measurement import Comparison
from advisor.terms.outcome import Reason
from advisor.terms.target import Metric
from tests.unit.advice.examples import (
    MET,
    MISSED,
    UNDECIDED,
    arm,
    baseline,
    broken,
    case,
    measurement,
    round_,
    setting,
    trial,
)

BASE = baseline(measurement(UNDECIDED))
FIRST, SECOND = trial(8, measurement(MET)), trial(9, measurement(MET))
THEIRS = arm(setting(), measurement(UNDECIDED))


def test_an_earlier_proof_stands_whatever_a_later_round_shows() -> None:
    missed = arm(setting(), measurement(MISSED))
    rounds = [
        round_(arm(setting(8), measurement(MET)), missed),
        round_(arm(setting(9), measurement(MISSED)), missed, number=1),
    ]
    advice = advise(case([BASE, FIRST, SECOND], rounds))
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice is not None
    assert advice.choice.setting == setting(8)
    assert advice.baseline is not None
    assert advice.baseline.measurement == measurement(MISSED)


def test_not_proven_shows_the_finalist_that_meets_not_the_last_one_tried() -> None:
    rounds = [
        round_(arm(setting(8), measurement(MET)), THEIRS),
        round_(arm(setting(9), measurement(UNDECIDED)), THEIRS, number=1),
    ]
    advice = advise(case([BASE, FIRST, SECOND], rounds))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.choice is not None
    assert advice.choice.setting == setting(8)
    assert advice.reasons[0].startswith("The best setting found meets the targets on held-out")


def test_not_proven_without_a_proof_shows_the_last_finalist() -> None:
    rounds = [round_(arm(setting(8), measurement(UNDECIDED)), THEIRS)]
    advice = advise(case([BASE, FIRST], rounds))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0].startswith("The best setting found is not proven to meet")
    assert advice.diff == ("--max-num-seqs 256 -> 8",)


def test_not_proven_without_a_finalist_shows_what_the_held_out_load_said() -> None:
    searched = baseline(measurement(MET))
    advice = advise(case([searched], held_out=measurement(UNDECIDED)))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.choice is not None
    assert advice.baseline is not None
    for shown in (advice.choice, advice.baseline):
        assert shown.setting == searched.setting
        assert shown.measurement == measurement(UNDECIDED)
        assert shown.confirmed
    assert advice.reasons[0].startswith("The current setting is not proven to meet the targets on")


def test_figures_of_the_search_are_never_shown_as_held_out() -> None:
    advice = advise(case([baseline(measurement(UNDECIDED)), FIRST]))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.baseline is not None
    assert advice.baseline.measurement == measurement(UNDECIDED)
    assert not advice.baseline.confirmed


def test_not_proven_where_nothing_has_an_answer_has_no_choice() -> None:
    failed = baseline(failure=broken(Reason.HUNG))
    advice = advise(case([failed]))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.choice is None
    assert (
        advice.reasons[0] == "No setting that may be advised has an answer, so nothing is proven"
    )


def test_no_trial_at_all_is_not_proven() -> None:
    advice = advise(case([]))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert (advice.choice, advice.baseline) == (None, None)


def test_one_setting_without_a_verdict_forbids_none_meets() -> None:
    missed = trial(1, measurement(MISSED))
    base = baseline(measurement(MISSED))
    assert advise(case([base, missed])).outcome is AdviceOutcome.NONE_MEETS
    open_ = trial(2, measurement(UNDECIDED))
    assert advise(case([base, missed, open_])).outcome is AdviceOutcome.NOT_PROVEN


def test_keep_current_counts_different_finalists() -> None:
    finalist = arm(setting(8), measurement(UNDECIDED))
    rounds = [round_(finalist, THEIRS), round_(finalist, THEIRS, number=1)]
    advice = advise(case([BASE, FIRST], rounds, held_out=measurement(MET)))
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert "is proven for 1 finalist;" in advice.reasons[0]
    assert advice.choice == advice.baseline


def test_blocked_keeps_what_is_known_of_the_baseline() -> None:
    advice = blocked(case([BASE, FIRST]), "the GPU is gone")
    assert advice.outcome is AdviceOutcome.BLOCKED
    assert advice.choice is None
    assert advice.baseline is not None
    assert not advice.baseline.confirmed
    assert advice.reasons[0] == "the GPU is gone"


def test_notes_follow_the_reasons() -> None:
    noted = replace(case([BASE]), notes=("The search ended early",))
    assert "The search ended early" in advise(noted).reasons


def test_where_the_control_gains_nothing_is_recommended() -> None:
    faster = Comparison(Metric.TTFT, 95.0, 0.6, 0.5, 0.7, 3)
    again = round_(arm(setting(), measurement(MET)), THEIRS, comparisons=[faster])
    won = round_(arm(setting(8), measurement(MET)), arm(setting(), measurement(MISSED)))
    assert advise(case([BASE, FIRST], [won])).outcome is AdviceOutcome.RECOMMENDED
    advice = advise(case([BASE, FIRST], [replace(won, control=again)], held_out=measurement(MET)))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0] == (
        "The control arm, the current setting again, gains: TTFT p95 is 0.50 to 0.70 times the "
        "baseline's over 3 pairs, a target that the baseline is not proven to meet"
    )
