"""The steps of a round, and the level at which it is judged."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from advisor.advice.confirm import Round
from advisor.measure.curves import curves
from advisor.terms.calibration import Calibration, Rehearsed, Rung
from advisor.terms.job import Phase, Trial, TrialResult
from advisor.terms.measurement import Headroom
from advisor.terms.outcome import TrialState
from advisor.terms.profile import Plan, WindowRole
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Verdict
from advisor.tune.confirmation import claim_multiple, claims, round_windows, steps_of
from advisor.tune.ports import Scored
from advisor.tune.rounds import baseline_held_out, baseline_noise, pooled_rounds
from tests.contract.scripted_bench import Dials, traces
from tests.unit.tune.jobs import SEQS, SPEC, TARGETS, WINDOWS

THEIRS, OURS = Setting.of("m", {SEQS: 256}), Setting.of("m", {SEQS: 8})
MEASURED, FAILED = TrialState.MEASURED, TrialState.FAILED
INFEASIBLE, INTERRUPTED = TrialState.INFEASIBLE, TrialState.INTERRUPTED


def finalist(low: float | None) -> Trial:
    result = TrialResult(MEASURED, headroom=Headroom(low, None, 1.3))
    return Trial(4, Phase.SEARCH, OURS, "tpe", result)


class Played:
    """Confirming launches as they would stand in the ledger."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.scored: dict[int, list[Scored]] = {}

    def launch(
        self,
        round_: int,
        repeat: int,
        setting: Setting,
        dials: Dials | None = None,
        *,
        multiples: Sequence[float] = (1.0,),
        state: TrialState = MEASURED,
    ) -> None:
        number = len(self.trials)
        result = TrialResult(state)
        trial = Trial(number, Phase.CONFIRM, setting, "confirmation", result, round_, repeat)
        self.trials.append(trial)
        window = round_windows(WINDOWS, SPEC, round_)[repeat]
        for multiple in multiples if dials else ():
            assert dials is not None
            plan = Plan(window, multiple, 1, 0)
            scored = Scored(window.name, multiple, curves(traces(dials, plan)))
            self.scored.setdefault(number, []).append(scored)

    def round(self, number: int, ours: Dials | None, theirs: Dials | None) -> None:
        for repeat in range(3):
            self.launch(number, repeat, THEIRS, theirs, state=MEASURED if theirs else INFEASIBLE)
            self.launch(number, repeat, OURS, ours, state=MEASURED if ours else INFEASIBLE)

    def rounds(self) -> tuple[Round, ...]:
        return pooled_rounds(self.trials, self.scored, THEIRS, TARGETS, SPEC)


def test_every_round_has_windows_of_its_own_spread_over_the_profile() -> None:
    first, second = (round_windows(WINDOWS, SPEC, number) for number in range(2))
    assert len(first) == len(second) == 3
    assert set(first).isdisjoint(second)
    assert {window.role for window in (*first, *second)} == {WindowRole.HELD_OUT}
    ends = [window.end_ns for window in first]
    assert ends == sorted(ends)
    # the search's and the other round's lie between them
    assert all(second[k].start_ns < first[k + 1].start_ns for k in range(2))


def test_steps_are_interleaved_and_alternate_who_goes_first() -> None:
    steps = steps_of(1, finalist(1.5), THEIRS, WINDOWS, SPEC)
    assert [(s.repeat, s.setting) for s in steps] == [
        (0, THEIRS),
        (0, OURS),
        (1, OURS),
        (1, THEIRS),
        (2, THEIRS),
        (2, OURS),
    ]
    assert [s.window for s in steps[::2]] == list(round_windows(WINDOWS, SPEC, 1))
    assert {s.multiples for s in steps} == {(1.0, 1.5)}
    assert {s.round for s in steps} == {1}


def test_without_a_finalist_only_the_baseline_is_launched() -> None:
    steps = steps_of(0, None, THEIRS, WINDOWS, SPEC)
    assert [s.setting for s in steps] == [THEIRS] * 3
    assert {s.multiples for s in steps} == {(1.0,)}


@pytest.mark.parametrize(("low", "claim"), [(1.5, 1.5), (1.0, 1.0), (0.7, 1.0), (None, 1.0)])
def test_a_finalist_claims_what_the_search_proved_of_it(low: float | None, claim: float) -> None:
    assert claim_multiple(finalist(low), SPEC) == claim


@pytest.mark.parametrize("state", list(TrialState))
def test_a_step_is_done_by_a_launch_that_ended_and_by_no_other(state: TrialState) -> None:
    step = steps_of(0, finalist(1.0), THEIRS, WINDOWS, SPEC)[1]
    ended = Trial(9, Phase.CONFIRM, OURS, "confirmation", TrialResult(state), 0, 0)
    assert step.is_done_by([ended]) is (state in (MEASURED, INFEASIBLE, FAILED))
    for other in (
        replace(ended, round=1),
        replace(ended, repeat=1),
        replace(ended, setting=THEIRS),
        replace(ended, phase=Phase.SEARCH),
    ):
        assert not step.is_done_by([other])


def test_the_error_is_split_over_every_claim_that_could_be_made() -> None:
    assert claims(SPEC) == 3
    played = Played()
    played.round(0, Dials(), Dials())
    (found,) = played.rounds()
    assert found.finalist is not None
    for arm in (found.finalist, found.baseline):
        assert arm.at_load is not None
        for judgement in arm.at_load.judgements:
            assert judgement.confidence == pytest.approx(1 - 0.05 / 3)
        assert arm.at_load.replays == 3
    held_out = baseline_held_out(played.trials, played.scored, THEIRS, TARGETS, SPEC)
    assert held_out is not None
    assert held_out.judgements[0].confidence == pytest.approx(1 - 0.05 / 3)


def test_a_stricter_split_takes_wider_intervals_of_the_pairs() -> None:
    played = Played()
    played.round(0, Dials(50), Dials(100))
    widths = []
    for rounds in (1, 5):
        spec = replace(SPEC, rounds=rounds)
        found = pooled_rounds(played.trials, played.scored, THEIRS, TARGETS, spec)
        ttft = found[0].comparisons[0]
        assert (ttft.metric, ttft.percentile, ttft.pairs) == ("ttft", 95, 3)
        assert ttft.ratio == pytest.approx(0.5, rel=0.02)
        widths.append(ttft.upper_ratio - ttft.lower_ratio)
    assert 0 < widths[0] < widths[1]


def test_a_claim_needs_the_margin_that_the_rehearsal_asks_for() -> None:
    rung = Rung(1.0, 1000.0, 300.0, 1000.0)  # a limit of 1,000 ms is judged as 300 ms
    verdicts = []
    for ttft_ms in (100, 400):
        played = Played()
        played.round(0, Dials(ttft_ms), Dials())
        for found in (None, Calibration("m", "paper", 20, (rehearsed_at(0.99, rung),))):
            spec = replace(SPEC, calibration=found)
            (round_,) = pooled_rounds(played.trials, played.scored, THEIRS, TARGETS, spec)
            assert round_.finalist is not None
            assert round_.finalist.at_load is not None
            verdicts.append(round_.finalist.at_load.judgements[0].verdict)
    assert verdicts == [Verdict.MET, Verdict.MET, Verdict.MET, Verdict.UNDECIDED]


def rehearsed_at(level: float, rung: Rung) -> Rehearsed:
    return Rehearsed(Metric.TTFT, 95.0, level, level, (rung,))


def test_the_baselines_own_launches_tell_what_is_noise() -> None:
    played = Played()
    played.round(0, Dials(50), Dials(100))
    for found in baseline_noise(played.trials, played.scored, THEIRS, TARGETS, SPEC):
        assert found.launches == 3
        assert found.factor == pytest.approx(1, abs=0.1)  # it is the same server each time
    ours = baseline_noise(played.trials, played.scored, OURS, TARGETS, SPEC)
    assert [noise.metric for noise in ours] == ["ttft", "itl"]
    assert baseline_noise(played.trials[:2], played.scored, THEIRS, TARGETS, SPEC) == ()


def test_half_a_round_proves_nothing() -> None:
    played = Played()
    for repeat in range(3):
        played.launch(0, repeat, OURS, Dials(carries=2))
        assert played.rounds() == () or repeat == 2
        if repeat < 2:
            played.launch(0, repeat, THEIRS, Dials())
            assert played.rounds() == ()
            held_out = baseline_held_out(played.trials, played.scored, THEIRS, TARGETS, SPEC)
            assert held_out is None


def test_an_interrupted_launch_and_its_replays_do_not_count() -> None:
    played = Played()
    played.launch(0, 0, OURS, Dials(carries=0.0), state=INTERRUPTED)
    played.round(0, Dials(), Dials())
    (found,) = played.rounds()
    assert found.finalist is not None
    assert found.finalist.at_load is not None
    assert (found.finalist.at_load.replays, found.finalist.failures) == (3, 0)


def test_a_window_without_a_replay_leaves_the_arm_without_a_measurement() -> None:
    played = Played()
    played.round(0, Dials(), Dials(carries=0.0))
    played.scored.pop(2)  # the baseline's second launch
    (found,) = played.rounds()
    assert found.baseline.at_load is None
    assert baseline_held_out(played.trials, played.scored, THEIRS, TARGETS, SPEC) is None


def test_only_a_baseline_whose_every_launch_was_refused_cannot_run() -> None:
    refused = Played()
    refused.round(0, Dials(), None)
    (found,) = pooled_rounds(refused.trials, refused.scored, THEIRS, TARGETS, SPEC)
    assert (found.baseline.failures, found.baseline.cannot_run) == (3, True)
    once = Played()
    once.round(0, Dials(), None)
    failed = replace(once.trials[0], result=TrialResult(FAILED))
    trials = [failed, *once.trials[1:]]
    (found,) = pooled_rounds(trials, once.scored, THEIRS, TARGETS, SPEC)
    assert (found.baseline.failures, found.baseline.cannot_run) == (3, False)


def test_the_baseline_is_judged_once_over_all_rounds() -> None:
    played = Played()
    played.round(0, Dials(), Dials())
    played.round(1, Dials(), Dials())
    held_out = baseline_held_out(played.trials, played.scored, THEIRS, TARGETS, SPEC)
    assert held_out is not None
    assert held_out.replays == 6
    assert [round_.number for round_ in played.rounds()] == [0, 1]
