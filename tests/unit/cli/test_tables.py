"""Advice as a person reads it in a terminal."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from advisor.cli.tables import print_advice
from advisor.measure.curves import curves
from advisor.measure.measure import measure
from advisor.terms.advice import Advice, AdviceOutcome, Cost, Evidence
from advisor.terms.job import EngineInfo, Job
from advisor.terms.setting import Setting
from advisor.terms.target import parse_target
from tests.unit.measure.make import steady
from tests.unit.tune.jobs import SPEC

ENGINE = EngineInfo("sim", "1", "paper", "m", simulated=True)
JOB = Job("1f0c9a2b", SPEC, SPEC.targets, ENGINE, "2026-01-01T00:00:00Z", "done")


def printed(target: str, lower: float | None, upper: float | None) -> str:
    """Advice on one measurement whose judgement has these bounds."""
    found = measure([curves(steady(60, [20.0]))], [parse_target(target)], 1.0, 0.95)
    judgements = tuple(
        replace(each, estimate=0.0, lower=lower, upper=upper) for each in found.judgements
    )
    evidence = Evidence(Setting.of("m", {}), replace(found, judgements=judgements), None, False)
    advice = Advice(
        outcome=AdviceOutcome.NONE_MEETS,
        choice=evidence,
        baseline=None,
        diff=(),
        reasons=(),
        search_launches=1,
        confirm_launches=0,
        replays=1,
        confidence=0.95,
        engine=ENGINE,
        profile_sha256="0" * 64,
    )
    out = io.StringIO()
    print_advice(Console(file=out, width=160), JOB, advice)
    return out.getvalue()


@pytest.mark.parametrize(
    ("target", "lower", "upper", "said"),
    [
        ("errors<=1%", 0.0, 0.5, "0 % (0 % to 0.5 %)"),
        ("errors<=1%", 0.0, math.inf, "0 % (0 % to 100 %)"),
        ("errors<=1%", 12.3, 45.6, "0 % (12 % to 46 %)"),
        ("ttft:p95<=1s", 20.0, 30.0, "0 ms (20 ms to 30 ms)"),
        ("ttft:p95<=1s", 20.0, math.inf, "0 ms (20 ms or more)"),
        ("ttft:p95<=1s", None, None, "0 ms (no data to no data)"),
    ],
)
def test_a_bound_that_is_open_is_no_infinite_number(
    target: str, lower: float | None, upper: float | None, said: str
) -> None:
    assert said in printed(target, lower, upper)


def costed(ours: Cost | None, theirs: Cost | None) -> str:
    arms = [
        Evidence(Setting.of("m", {}), None, None, confirmed=True, cost=cost)
        for cost in (ours, theirs)
    ]
    advice = Advice(
        outcome=AdviceOutcome.RECOMMENDED,
        choice=arms[0],
        baseline=arms[1],
        diff=(),
        reasons=(),
        search_launches=1,
        confirm_launches=6,
        replays=1,
        confidence=0.95,
        engine=ENGINE,
        profile_sha256="0" * 64,
    )
    out = io.StringIO()
    print_advice(Console(file=out, width=160), JOB, advice)
    return " ".join(out.getvalue().split())


def test_what_a_million_tokens_cost_stands_beside_the_baselines() -> None:
    said = costed(Cost(1, 2.0, 0.125, 0.5), Cost(2, 1.0, 0.5, 2.0))
    assert "simulated recommended (held-out load)" in said
    assert (
        "GPU-hours per million tokens 0.125 (GPUs: 1, at 2x) 0.5 (GPUs: 2, at 1x) "
        "money per million tokens 0.5 2" in said
    )


def test_a_cost_that_nobody_asked_for_or_knows_is_no_row() -> None:
    assert "million tokens" not in costed(None, None)
    said = costed(Cost(1, 2.0, 0.125, None), None)
    assert "GPU-hours per million tokens 0.125 (GPUs: 1, at 2x) -" in said
    assert "money" not in said
