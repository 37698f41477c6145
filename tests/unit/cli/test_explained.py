"""The explanation as a person reads it: labelled, and silent where nothing was measured."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from advisor.advice.advise import advise
from advisor.advice.background import Background, Served
from advisor.advice.explanation import Explanation, explain
from advisor.cli.explained import print_explanation
from advisor.terms.job import ServerFacts
from tests.unit.advice.examples import case
from tests.unit.advice.ladders import facts
from tests.unit.advice.test_explanation import BASE, JOB, TRIALS, WINNER

CASE = replace(case(TRIALS), job=JOB)
ADVICE = advise(CASE)


def printed(why: Explanation, *, simulated: bool = True) -> str:
    out = io.StringIO()
    job = replace(JOB, engine=replace(JOB.engine, simulated=simulated))
    print_explanation(Console(file=out, width=200), job, ADVICE, why)
    return " ".join(out.getvalue().split())


def why(*told: ServerFacts) -> Explanation:
    served = tuple(
        Served(setting, f"w{n}", 1.0, each)
        for n, each in enumerate(told)
        for setting in (WINNER, BASE.setting)
    )
    return explain(JOB, TRIALS, (), Background(served), ADVICE.outcome, WINNER)


@pytest.mark.parametrize(("simulated", "label"), [(True, "simulated"), (False, "measured")])
def test_every_table_says_what_its_numbers_are(simulated: bool, label: str) -> None:
    said = printed(why(), simulated=simulated)
    for title in (
        f"What each target costs ({label}, search load)",
        f"What each knob does to headroom: pairs of trials that differ in it alone ({label},",
        f"TTFT against ITL against headroom at 1x ({label})",
    ):
        assert title in said
    assert "ttft:p95<=1000ms 100 %, nearest >= 3 (trial 2)" in said
    assert "--max-num-batched-tokens 2 2.00 times 100 % 1024 over 2048: 2.00 times" in said
    assert "--max-num-seqs 2 within noise" in said
    assert "2 * 500 20 2 .. 3 --max-num-batched-tokens 2048 -> 1024" in said


def test_a_sentence_of_the_advice_is_not_said_again() -> None:
    assert why().reasons
    assert "Without effect here" not in printed(why())
    assert "- Prefix caching found" in printed(why(facts()))
    other = replace(why(), reasons=("Told by a later version.",))
    assert "- Told by a later version." in printed(other)


def test_what_a_server_does_not_tell_is_not_told() -> None:
    assert "Where a request's time went" not in printed(why())
    nothing = " ".join(["not told"] * 5)
    assert f"this one {nothing} 1 current {nothing} 1" in printed(why(ServerFacts()))
    assert "this one 100 400 500 2000 0 1 current 100 400 500 2000 0 1" in printed(why(facts()))
