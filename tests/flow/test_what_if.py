"""Other targets for stored replays: no launch, and the same as judging the traces afresh."""

import math
from typing import Any

import pytest

from advisor.measure.curves import curves
from advisor.measure.measure import measure
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import Phase
from advisor.terms.measurement import Measurement
from advisor.terms.target import Metric, Target, parse_target
from tests.flow.jobs import Finished, dump

#: Targets, the outcome and its exit code.
TIGHTER = (("ttft:p90<=30ms", "itl:p90<=40ms"), "none_meets", 3)
LOOSER = (("ttft:p90<=200ms",), "keep_current", 0)
#: of metrics that the job had no target for, so that nothing was rehearsed
OTHER = (("e2e:p50<=1s", "tpot:p80<=9ms", "errors<=5%"), "not_proven", 4)


@pytest.mark.parametrize(("asked", "outcome", "code"), [TIGHTER, LOOSER, OTHER])
def test_it_equals_judging_the_stored_traces_afresh(
    finished: Finished, asked: tuple[str, ...], outcome: str, code: int
) -> None:
    advisor, before = finished.advisor, dump(finished.advisor.db)
    words = [word for target in asked for word in ("--target", target)]
    ended = advisor.on_db("what-if", finished.job, *words, "--json")
    said = ended.object
    assert (said["outcome"], ended.code) == (outcome, code)
    assert (said["what_if"], said["simulated"]) == (True, True)
    assert ended.err == ""
    for evidence in (said, said["baseline"]):
        assert_equal(evidence, afresh(finished, evidence, asked))
    assert dump(advisor.db) == before


def afresh(finished: Finished, evidence: dict[str, Any], asked: tuple[str, ...]) -> Measurement:
    """From the raw traces of every replay of that setting on that load, and nothing else."""
    with SqlLedger(finished.advisor.url, owner=Owner.this_process(), create=False) as ledger:
        job = ledger.job(finished.job)
        trials = [
            trial
            for trial in ledger.trials(job.id)
            if (trial.phase is Phase.CONFIRM) == evidence["confirmed"]
            # the baseline's own trial leaves knobs to the server's defaults
            and {**evidence["setting"], **dict(trial.setting.flags)} == evidence["setting"]
        ]
        pool = [
            curves(ledger.traces(replay.id))
            for trial in trials
            for replay in ledger.replays(job.id, trial.number)
            if replay.outcome.is_scored and replay.plan.multiple == job.spec.load
        ]
        spec = job.spec
        targets = [parse_target(text) for text in asked]
        if not any(target.metric is Metric.ERRORS for target in targets):
            targets += [target for target in job.targets if target.metric is Metric.ERRORS]
    # a claim on held-out load has its part of the error: one for each round, one for the baseline
    parts = spec.rounds + 1 if evidence["confirmed"] else 1
    assert len(pool) == spec.windows
    level = 1 - (1 - spec.confidence) / parts
    return measure(pool, targets, spec.load, level, spec.calibration)


def assert_equal(evidence: dict[str, Any], fresh: Measurement) -> None:
    assert len(evidence["targets"]) == len(fresh.judgements)
    for said, judged in zip(evidence["targets"], fresh.judgements, strict=True):
        assert Target(
            Metric(said["metric"]), said["percentile"], said["limit"], judged.target.unit
        ) == Target(
            judged.target.metric,
            judged.target.percentile,
            judged.target.limit,
            judged.target.unit,
        )
        assert said["unit"] == judged.target.unit
        assert said["verdict"] == judged.verdict
        assert (said["samples"], said["blocks"]) == (judged.samples, judged.blocks)
        for name in ("estimate", "lower", "upper", "share_over", "share_over_upper"):
            value = getattr(judged, name)
            if math.isinf(value):
                assert said[name] is None
                continue
            assert said[name] == value, name
    assert evidence["metrics"]["goodput_rps"] == fresh.goodput_rps
    assert evidence["metrics"]["output_tokens_per_s"] == fresh.output_tokens_per_s


def test_for_a_person_it_says_that_nothing_was_launched(finished: Finished) -> None:
    ended = finished.advisor.on_db("what-if", finished.job, "--target", "ttft:p90<=30ms")
    assert ended.code == 3
    assert "None meets" in ended.out
    assert "stored replays" in ended.out
    assert "simulated" in ended.out
