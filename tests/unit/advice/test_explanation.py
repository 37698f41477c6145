"""The whole explanation of a case, and that nothing is said of what was not measured."""

import json
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.advise import advise, blocked
from advisor.advice.background import Background, Served
from advisor.advice.explanation import Explanation, explain
from advisor.advice.explanation_json import explanation_json
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Phase, ServerFacts, Trial
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.advice.examples import broken, case, trial
from tests.unit.advice.ladders import SEQS, TARGETS, TOKENS, carrying, facts, flags, point
from tests.unit.advice.test_effects import SQUARE

BASE = replace(SQUARE[0], phase=Phase.BASELINE)
TRIALS = (BASE, *SQUARE[1:])
WINNER = SQUARE[2].setting
JOB = replace(case([]).job, targets=TARGETS)


def explained(
    trials: tuple[Trial, ...] = TRIALS,
    background: Background | None = None,
    outcome: AdviceOutcome = AdviceOutcome.RECOMMENDED,
    choice: Setting | None = WINNER,
) -> Explanation:
    return explain(JOB, trials, (), background or Background(), outcome, choice)


def test_a_case_is_explained_from_all_sides() -> None:
    replays = tuple(Served(each, "search-0", 1.0, facts()) for each in (WINNER, BASE.setting))
    found = explained(background=Background(replays, ((TOKENS, (1024, 2048)),)))
    assert [effect.knob for effect in found.effects] == [TOKENS, SEQS]
    assert [cost.nearest for cost in found.costs] == [True, False, False]
    assert [spot.trial for spot in found.trade_off.spots if spot.on_curve] == [2, 3]
    assert [spent.setting for spent in found.spent] == [WINNER, BASE.setting]
    begins = [" ".join(line.split()[:3]) for line in found.reasons]
    assert begins == [
        "ttft:p95<=1000ms ends the",
        "--max-num-batched-tokens 1024 is",
        "Without effect here:",
    ]
    assert [line.split()[1] for line in found.facts] == ["KV", "caching"]


def test_a_blocked_job_decided_nothing() -> None:
    assert explained(outcome=AdviceOutcome.BLOCKED, choice=None).reasons == ()
    assert blocked(case(TRIALS), "the GPU is gone").reasons[0] == "the GPU is gone"


def test_the_advice_has_the_sentences_that_matter() -> None:
    advice = advise(replace(case(TRIALS), job=JOB))
    assert advice.choice is not None
    setting = advice.choice.setting
    why = explained(outcome=advice.outcome, choice=setting)
    assert why.reasons
    assert set(why.reasons) <= set(advice.reasons)


def test_the_current_setting_is_compared_with_nothing_but_itself() -> None:
    background = Background((Served(BASE.setting, "search-0", 1.0, facts()),))
    found = explained(
        background=background, outcome=AdviceOutcome.KEEP_CURRENT, choice=BASE.setting
    )
    assert [spent.setting for spent in found.spent] == [BASE.setting]


def test_as_json_it_has_no_infinity_and_no_number_for_what_is_missing() -> None:
    silent = Background(
        tuple(Served(each, "search-0", 1.0, ServerFacts()) for each in (WINNER, BASE.setting))
    )
    failing = trial(9, point(1.0, float("inf")), of=flags(8))
    body = explanation_json(explained((*TRIALS, failing), silent))
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert body["time_spent"][0]["queue_ms"] is None
    assert body["trade_off"]["settings"][-1]["ttft_ms"] is None
    assert body["knobs"][0]["pairs"][0]["better"] == 1024
    assert body["target_costs"][0]["headroom_without"] == {"low": 3.0, "high": None}
    nothing = explanation_json(explained((), Background(), AdviceOutcome.NOT_PROVEN, None))
    assert (nothing["knobs"], nothing["target_costs"], nothing["findings"]) == ([], [], [])


MEASURED = st.tuples(
    st.sampled_from([0.2, 0.6, 1.0, 1.3, 2.2, 9.0]), st.sampled_from([10.0, 60.0])
)
DEAD = st.sampled_from([Reason.OOM_LOAD, Reason.HUNG])


@given(
    st.lists(st.none() | DEAD | MEASURED, min_size=1, max_size=9),
    st.sampled_from(list(AdviceOutcome)),
    st.integers(0, 8),
)
def test_nothing_is_said_of_what_was_not_measured(
    how: list[Reason | tuple[float, float] | None], outcome: AdviceOutcome, choice: int
) -> None:
    """Without a server's facts none is told, and every trial named is one with measurements."""
    settings = [flags(8 << (n % 3), 512 << (n // 3)) for n in range(len(how))]
    trials = []
    for number, (each, of) in enumerate(zip(how, settings, strict=True)):
        if isinstance(each, tuple):
            trials.append(carrying(number, each[0], of, each[1]))
        else:
            trials.append(trial(number, of=of, failure=broken(each) if each else None))
    found = explained(tuple(trials), None, outcome, settings[choice % len(how)])
    measured = {t.number for t in trials if t.result.measurements}
    assert (found.spent, found.facts) == ((), ())
    named = {int(number) for line in found.reasons for number in re.findall(r"trial (\d+)", line)}
    paired = {number for e in found.effects for pair in e.pairs for number in pair.trials}
    dearest = {cost.without_trial for cost in found.costs} - {None}
    assert named | paired | dearest | {spot.trial for spot in found.trade_off.spots} <= measured
    if not measured:
        assert found.reasons == ()
