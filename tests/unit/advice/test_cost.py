"""GPU-hours and money for a million tokens."""

from dataclasses import replace

import pytest

from advisor.advice.advise import advise
from advisor.advice.choose import finalists, score
from advisor.advice.cost import cost_of
from advisor.terms.job import Objective, Trial
from advisor.terms.setting import Setting
from tests.unit.advice.examples import (
    MET,
    MISSED,
    SPEC,
    UNDECIDED,
    arm,
    baseline,
    case,
    measurement,
    round_,
    setting,
    trial,
)

PRICED = replace(SPEC, objective=Objective.COST, gpu_price=2.5)


def on(gpus: int) -> Setting:
    return Setting.of("m", {"max_num_seqs": 8, "tensor_parallel_size": gpus})


def launched(number: int, gpus: int, carries: float) -> Trial:
    found = trial(number, measurement(MET), measurement(MET, carries), of=on(gpus))
    return replace(found, result=replace(found.result, gpus=gpus))


def test_two_gpus_for_the_same_throughput_cost_twice() -> None:
    at_load = measurement(MET)
    assert at_load.total_tokens_per_s == 2000
    one, two = (cost_of(on(gpus), [at_load], PRICED) for gpus in (1, 2))
    # 1e6 tokens at 2,000 a second are 500 s of one GPU
    assert one is not None
    assert two is not None
    assert (one.gpus, one.multiple) == (1, 1.0)
    assert one.gpu_hours_per_mtok == pytest.approx(500 / 3600)
    assert one.money_per_mtok == pytest.approx(2.5 * 500 / 3600)
    assert two.gpu_hours_per_mtok == 2 * one.gpu_hours_per_mtok
    assert two.money_per_mtok is not None
    assert two.money_per_mtok == pytest.approx(2 * (one.money_per_mtok or 0))


def test_all_that_is_parallel_multiplies() -> None:
    flags = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3, "data_parallel_size": 4}
    assert Setting.of("m", flags).gpus == 24
    assert Setting.of("m", {"max_num_seqs": 8}).gpus == 1


def test_it_is_told_at_the_highest_load_that_meets() -> None:
    busy = replace(measurement(MET, 2.0), total_tokens_per_s=4000.0)
    too_much = replace(measurement(MISSED, 3.0), total_tokens_per_s=5000.0)
    unsure = replace(measurement(UNDECIDED, 2.5), total_tokens_per_s=4500.0)
    found = cost_of(on(1), [measurement(MET), None, busy, too_much, unsure], PRICED)
    assert found is not None
    assert found.multiple == 2.0
    assert found.gpu_hours_per_mtok == pytest.approx(250 / 3600)


def test_nothing_is_told_that_was_not_asked_for_or_is_not_known() -> None:
    assert cost_of(on(1), [measurement(MET)], SPEC) is None
    assert cost_of(on(1), [measurement(MISSED), None], PRICED) is None
    assert cost_of(on(1), [replace(measurement(MET), total_tokens_per_s=0.0)], PRICED) is None
    unpriced = cost_of(on(1), [measurement(MET)], replace(PRICED, gpu_price=None))
    assert unpriced is not None
    assert unpriced.money_per_mtok is None
    priced = cost_of(on(1), [measurement(MET)], replace(PRICED, objective=Objective.HEADROOM))
    assert priced is not None
    assert priced.money_per_mtok is not None


def test_the_score_of_cost_is_the_load_on_each_gpu() -> None:
    one, two = launched(1, 1, 2.0), launched(2, 2, 3.0)
    assert (score(one.result, PRICED), score(two.result, PRICED)) == (2.0, 1.5)
    assert [t.number for t in finalists([one, two], PRICED, None)] == [1, 2]
    # a ledger of before it was written down
    assert score(replace(two.result, gpus=None), PRICED) == 3.0


def test_a_setting_that_carries_no_more_on_each_gpu_is_no_finalist() -> None:
    base = replace(launched(0, 2, 2.0), phase=baseline().phase)
    assert finalists([base, launched(1, 4, 4.0)], PRICED, base) == []
    cheaper = launched(2, 1, 1.5)
    assert finalists([base, cheaper], PRICED, base) == [cheaper]


def test_the_advice_shows_it_for_the_choice_and_the_baseline() -> None:
    base = baseline(measurement(MET), measurement(MISSED, 2.0))
    found = trial(8, measurement(MET), measurement(MET, 2.0))
    busy = replace(measurement(MET, 2.0), total_tokens_per_s=4e3)
    ours = arm(setting(8), measurement(MET), busy)
    rounds = [round_(ours, arm(setting(), measurement(MET), measurement(MISSED, 2.0)), 2.0)]
    advice = advise(case([base, found], rounds, gpu_price=1.0))
    assert advice.choice is not None
    assert advice.baseline is not None
    ours_costs = advice.choice.cost
    assert ours_costs is not None
    assert (ours_costs.gpus, ours_costs.multiple) == (1, 2.0)
    assert ours_costs.gpu_hours_per_mtok == pytest.approx(250 / 3600)
    assert ours_costs.money_per_mtok == ours_costs.gpu_hours_per_mtok
    # the baseline at the load that it is proven to carry
    assert advice.baseline.cost is not None
    assert (advice.baseline.cost.multiple, advice.baseline.cost.gpus) == (1.0, 1)
    silent = advise(case([base, found], rounds))
    assert silent.choice is not None
    assert silent.choice.cost is None


def test_a_claim_that_was_not_confirmed_costs_nothing_less() -> None:
    base = baseline(measurement(MISSED))
    found = trial(8, measurement(MET), measurement(MET, 2.0))
    ours = arm(setting(8), measurement(MET), measurement(UNDECIDED, 2.0))
    rounds = [round_(ours, arm(setting(), measurement(MISSED)), 2.0)]
    advice = advise(case([base, found], rounds, gpu_price=1.0))
    assert advice.choice is not None
    assert advice.choice.cost is not None
    assert advice.choice.cost.multiple == 1.0
    assert advice.baseline is not None
    assert advice.baseline.cost is None, "it meets at no load that was tried"
