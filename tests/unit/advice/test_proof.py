"""What is said of the proof: what was withstood, how far the search was off, what lacks."""

from dataclasses import replace

from advisor.advice.advise import advise
from advisor.advice.confirm import Raised
from advisor.advice.proof import (
    died_lines,
    drop_line,
    more_load_line,
    more_proof_line,
    survived_line,
)
from advisor.advice.unmet import would_meet_line
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Objective, Soak
from advisor.terms.measurement import Comparison, Judgement, RateComparison
from advisor.terms.target import Metric
from tests.unit.advice.examples import (
    ERRORS,
    MET,
    MISSED,
    UNDECIDED,
    arm,
    baseline,
    case,
    judged,
    measurement,
    round_,
    setting,
    trial,
)

DEAD = Soak(37, trouble="crashed_under_load: died")
BASE = baseline(measurement(UNDECIDED))
THEIRS = arm(setting(), measurement(MISSED))


def test_a_winner_that_dies_is_not_recommended_and_the_next_one_is() -> None:
    first, second = trial(8, measurement(MET)), trial(9, measurement(MET))
    rounds = [
        round_(arm(setting(8), measurement(MET), failures=1, soak=DEAD), THEIRS),
        round_(arm(setting(9), measurement(MET)), THEIRS, number=1),
    ]
    advice = advise(case([BASE, first, second], rounds))
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.choice is not None
    assert advice.choice.setting == setting(9)
    line = (
        "The finalist of round 1 did not survive 37 of the profile's longest requests at once: "
        "crashed_under_load: died; it is not recommended"
    )
    assert line in advice.reasons
    assert died_lines(rounds) == [line]


def test_without_a_next_one_nothing_is_proven() -> None:
    failing = Soak(37, trouble="2 of 37 requests failed (http x2)")
    rounds = [round_(arm(setting(8), measurement(MET), soak=failing), THEIRS)]
    advice = advise(case([BASE, trial(8, measurement(MET))], rounds))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0] == (
        "The best setting found does not survive the profile's longest requests at once"
    )
    assert any("2 of 37 requests failed" in reason for reason in advice.reasons)


def test_who_was_not_tried_with_them_is_not_recommended() -> None:
    rounds = [round_(arm(setting(8), measurement(MET), soak=None), THEIRS)]
    advice = advise(case([BASE, trial(8, measurement(MET))], rounds))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0] == (
        "The best setting found was not tried with the profile's longest requests at once, so it "
        "is not proven"
    )


def test_of_two_that_prove_nothing_the_one_that_survives_is_shown() -> None:
    theirs = arm(setting(), measurement(UNDECIDED))
    rounds = [
        round_(arm(setting(8), measurement(MET), soak=DEAD), theirs),
        round_(arm(setting(9), measurement(MET)), theirs, number=1),
    ]
    trials = [BASE, trial(8, measurement(MET)), trial(9, measurement(MET))]
    advice = advise(case(trials, rounds))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.choice is not None
    assert advice.choice.setting == setting(9)


def test_what_was_not_finished_in_time_is_told() -> None:
    assert survived_line(Soak(40, unfinished=3)) == (
        "It survived 40 of the profile's longest requests at once; 3 of them were not finished "
        "when the time was over"
    )


def test_the_drop_from_the_search_to_held_out_load_is_shown() -> None:
    searched = trial(8, measurement(MET), measurement(MET, 2.0))
    ours = arm(setting(8), measurement(MET), measurement(UNDECIDED, 2.0))
    found = round_(ours, arm(setting(), measurement(MET)), 2.0)
    assert drop_line(searched, found) == (
        "From the search to held-out load, shares over the limit: at 1x TTFT p95 1 % -> 1 %, "
        "errors 1 % -> 1 %; at 2x (claimed: met -> undecided) TTFT p95 1 % -> 4 %, errors "
        "1 % -> 1 %"
    )
    assert drop_line(None, found) is None
    assert drop_line(searched, round_(None, arm(setting()))) is None
    assert drop_line(searched, round_(arm(setting(8)), arm(setting()))) is None


def test_the_drop_is_told_where_nothing_is_proven_too() -> None:
    rounds = [round_(arm(setting(8), measurement(UNDECIDED)), THEIRS)]
    advice = advise(case([BASE, trial(8, measurement(MET))], rounds))
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert any("(claimed: met -> undecided) TTFT p95 1 % -> 4 %" in r for r in advice.reasons)


MORE = (
    "Estimated, if shares stay as they are: to decide TTFT p95 at 1x takes at least 25 times the "
    "load, so a profile that much longer, or 75 windows like these 3"
)


def test_how_much_load_would_decide_an_open_target() -> None:
    # a share of 4 %, at most 9 %, 5 % allowed
    assert more_load_line(measurement(UNDECIDED)) == MORE
    assert more_load_line(measurement(MET)) is None
    assert more_load_line(None) is None
    held_out = advise(case([BASE], held_out=measurement(UNDECIDED)))
    assert held_out.outcome is AdviceOutcome.NOT_PROVEN
    assert MORE in held_out.reasons
    assert MORE in advise(case([BASE])).reasons


def test_one_target_without_a_figure_leaves_the_whole_without_one() -> None:
    blind = Judgement(ERRORS, UNDECIDED, None, None, None, None, None, None, 0, 0, 0.95)
    found = replace(measurement(UNDECIDED), judgements=(judged(UNDECIDED), blind))
    assert more_load_line(found) is None


def test_how_many_pairs_would_show_a_gain() -> None:
    lower = Comparison(Metric.TTFT, 95.0, 0.5, 0.125, 2.0, 3)
    theirs = arm(setting(), measurement(UNDECIDED))
    found = round_(arm(setting(8), measurement(MET)), theirs, comparisons=[lower])
    line = (
        "Estimated, if ratio and spread stay as they are: it takes at most 12 pairs of launches "
        "to show the difference to the current setting"
    )
    assert more_proof_line(found) == line
    # of a target that the baseline meets nothing can be gained
    met = round_(arm(setting(8), measurement(MET)), arm(setting(), measurement(MET)), 1.0, [lower])
    assert more_proof_line(met) is None
    rate = Raised(Objective.GOODPUT, RateComparison(2.0, 0.5, 8.0, 3))
    # to a hundredth more, which a change has to be worth
    assert more_proof_line(replace(met, raised=rate)) == line.replace("12", "13")
    slower = Raised(Objective.GOODPUT, RateComparison(0.5, 0.1, 2.0, 3))
    assert more_proof_line(replace(met, raised=slower)) is None
    assert more_proof_line(replace(met, raised=Raised(Objective.COST, None))) is None


def test_what_would_decide_the_claim_is_told_where_pairs_say_nothing() -> None:
    ours = arm(setting(8), measurement(MET), measurement(MET, 2.0))
    theirs = arm(setting(), measurement(MET), measurement(UNDECIDED, 2.0))
    line = more_proof_line(round_(ours, theirs, 2.0))
    assert line is not None
    assert "to decide TTFT p95 at 2x" in line
    unsure = arm(setting(8), measurement(MET), measurement(UNDECIDED, 2.0))
    assert more_proof_line(round_(unsure, theirs, 2.0)) == line
    open_ = round_(arm(setting(8), measurement(UNDECIDED)), THEIRS)
    assert more_proof_line(open_) == MORE
    dead = arm(setting(8), measurement(UNDECIDED), soak=DEAD)
    assert more_proof_line(round_(dead, THEIRS)) is None


def test_none_meets_says_what_is_met_all_the_same() -> None:
    nearest = trial(8, measurement(MET, 0.5), measurement(MISSED))
    assert would_meet_line(nearest, 1.0) == (
        "What it does meet, as far as was measured: ttft:p95<=4000ms at this load; or the targets "
        "as they are at 0.5x the recorded load"
    )
    base = baseline(measurement(MISSED, 0.5), measurement(MISSED))
    advice = advise(case([base, nearest]))
    assert advice.outcome is AdviceOutcome.NONE_MEETS
    assert would_meet_line(nearest, 1.0) in advice.reasons
    assert would_meet_line(trial(8, measurement(MET)), 2.0) == (
        "What it does meet, as far as was measured: the targets as they are at 1x the "
        "recorded load"
    )


def test_a_miss_without_an_upper_bound_names_no_limit() -> None:
    endless = replace(judged(MISSED), upper=float("inf"))
    found = trial(8, replace(measurement(MISSED), judgements=(endless,)))
    assert would_meet_line(found, 1.0) is None
    failing = replace(judged(MISSED, ERRORS, 4.0), upper=6.25)
    found = trial(8, replace(measurement(MISSED), judgements=(failing,)))
    assert would_meet_line(found, 1.0) == (
        "What it does meet, as far as was measured: errors<=6.25% at this load"
    )
