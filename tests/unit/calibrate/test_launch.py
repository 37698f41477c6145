"""A log and a client's stamps of one launch give what steps cost and what lies between them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from advisor.calibrate.constants import Constants
from advisor.calibrate.iterlog import parse_iterations
from advisor.calibrate.launch import Calibrated, fit_launch
from advisor.calibrate.relive import relive
from advisor.sim import EngineConfig, SimRun, simulate
from advisor.sim.cost import CostModel
from advisor.sim.steps import Limits
from advisor.terms.flags import FlagValue
from advisor.terms.load import Load
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.traces import Int64
from tests.real.tiny_model import CONFIG
from tests.unit.calibrate.test_steps import log_of
from tests.unit.sim.loads import SECOND, engine, gaps_ms, poisson

TRUE = Constants(token=1.5, step=2.0, host=3.0, host_sequence=0.5, request_ms=6.0)
LOAD = Load.of(poisson(4, 120, 600, 40), 512)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A thin model, so that what lies between two steps counts."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return str(folder)


def setting(model: str, max_num_batched_tokens: int) -> EngineConfig:
    budget = max_num_batched_tokens
    flags: dict[str, FlagValue] = {"dtype": "float32", "max_num_batched_tokens": budget}
    return engine("cpu-ddr5", model, max_model_len=2048, enforce_eager=True, **flags)


def uneven() -> Int64:
    """Half of the steps as modelled, others up to five times as long, slow ones together."""
    rng = np.random.default_rng(3)
    slow = np.repeat(rng.random(200) < 0.2, 10)
    return np.where(slow, rng.uniform(1e6, 5e6, 2_000), 1e6).astype(np.int64)


def launched(config: EngineConfig) -> SimRun:
    cost = replace(TRUE.apply(CostModel.of(config)), factors=uneven())
    return simulate(LOAD, config, window_start_ns=0, window_end_ns=SECOND, cost=cost)


@pytest.fixture(scope="module")
def calibrated(model: str) -> Calibrated:
    config = setting(model, 512)
    run = launched(config)
    found = relive(LOAD, Limits.of(config), list(parse_iterations(log_of(run))))
    assert found.mismatch is None
    return fit_launch(found, run.traces, config, ReplayOutcome.VALID)


def test_what_lies_between_steps_is_found_beside_what_they_cost(calibrated: Calibrated) -> None:
    found = calibrated.fit.constants
    assert found.token == pytest.approx(TRUE.token, rel=0.1)
    assert found.host == pytest.approx(TRUE.host, rel=0.3)
    assert found.request_ms == pytest.approx(6.0, abs=1.5)
    assert len(calibrated.fit.vector) == len(calibrated.fit.free.names)
    low, high = calibrated.fit.interval("host")
    assert low < found.host < high


def test_slow_steps_stay_in_the_order_of_the_log(calibrated: Calibrated, model: str) -> None:
    found = calibrated.factors
    true = np.resize(uneven(), len(found))
    assert np.corrcoef(true, found)[0, 1] > 0.95
    config = setting(model, 512)
    one, other = (calibrated.cost(config, seed).factors for seed in (1, 2))
    assert sorted(one) == sorted(other) == sorted(found)
    assert (one != other).any()


def test_another_setting_is_predicted_with_its_tail(calibrated: Calibrated, model: str) -> None:
    config = setting(model, 128)
    real = np.percentile(gaps_ms(launched(config)), [50, 95, 99])
    predicted = simulate(
        LOAD,
        config,
        window_start_ns=0,
        window_end_ns=SECOND,
        cost=calibrated.cost(config),
    )
    assert np.percentile(gaps_ms(predicted), [50, 95, 99]) == pytest.approx(real, rel=0.15)
