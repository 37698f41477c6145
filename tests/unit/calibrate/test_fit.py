"""Constants are found again in runs that were simulated with them."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.calibrate.constants import (
    BEFORE_STEPS,
    BETWEEN_STEPS,
    IN_STEPS,
    Constants,
    Free,
)
from advisor.calibrate.predict import predict
from advisor.calibrate.runs import Run, fit_runs
from advisor.sim import EngineConfig, simulate
from advisor.terms.errors import InputError
from advisor.terms.load import Load
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus, Traces
from tests.unit.sim.loads import SECOND, engine, poisson

TRUE = Constants(weights=1.3, token=1.4, context=1.2, step=1.5, prefill_ms=2.0)
LOAD = Load.of(poisson(6, 150, 1500, 150), 512)


def setting() -> EngineConfig:
    return engine("rtx-4090", max_model_len=4096, max_num_batched_tokens=1024)


def played(config: EngineConfig, constants: Constants, load: Load = LOAD) -> Traces:
    empty = Run(config, load, load.at_ns, load.at_ns, load.at_ns >= 0, at_engine=False)
    return simulate(
        load, config, window_start_ns=0, window_end_ns=SECOND, cost=empty.cost(constants)
    ).traces


def recorded(config: EngineConfig, constants: Constants = TRUE, load: Load = LOAD) -> Run:
    return Run.of_traces(played(config, constants, load), load, config, ReplayOutcome.VALID)


def test_a_fit_predicts_another_setting_better_than_data_sheets_do() -> None:
    config = setting()
    fit = fit_runs([recorded(config)])
    assert fit.residuals_pct["tpot"] < 1
    assert fit.residuals_pct["ttft"] < 5
    other = recorded(replace(config, max_num_batched_tokens=256, max_num_seqs=64))
    error, before = (
        [float(np.median(np.abs(each))) for each in other.errors(constants)]
        for constants in (fit.constants, Constants())
    )
    assert error[1] < 0.03
    assert error[1] < before[1] / 3
    assert error[0] < before[0]


def test_turns_that_waited_count_from_when_they_were_asked_for() -> None:
    requests = [
        PlannedRequest(i * SECOND, 400, 40, (), True, str(i % 10), None if i < 10 else SECOND)
        for i in range(40)
    ]
    load, config = Load.of(requests, 512), setting()
    run = recorded(config, load=load)
    assert (run.load.at_ns != load.at_ns).any()
    ttft, tpot = run.errors(TRUE)
    assert np.abs(ttft).max() < 1e-9
    assert np.abs(tpot).max() < 1e-9


def test_what_the_runs_do_not_show_stays_as_it_was_and_is_uncertain() -> None:
    fit = fit_runs([recorded(setting())])
    low, high = fit.interval("pair")
    assert low < 1 < high
    shown = fit.interval("token")
    assert (high / low) > 1.2 * (shown[1] / shown[0])


def test_a_carried_prediction_is_a_range_and_says_so() -> None:
    config = setting()
    fit = fit_runs([recorded(config)])

    def last_ms(constants: Constants) -> float:
        return float(recorded(config, constants).last_ns[0]) / 1e6

    own, carried = (predict(fit, last_ms, carried=each) for each in (False, True))
    assert own.low <= own.value <= own.high
    assert carried.high - carried.low > own.high - own.low
    assert str(carried).startswith("estimated ")
    assert not str(own).startswith("estimated")


@pytest.mark.parametrize(
    "outcome",
    [ReplayOutcome.CLIENT_BOUND, ReplayOutcome.MISMATCH, ReplayOutcome.CONTAMINATED],
)
def test_void_replays_are_refused(outcome: ReplayOutcome) -> None:
    traces = played(setting(), TRUE)
    with pytest.raises(InputError, match=f"replay outcome is {outcome}; expected one of noisy"):
        Run.of_traces(traces, LOAD, setting(), outcome)


def test_a_run_in_which_nothing_succeeded_is_refused() -> None:
    traces = played(setting(), TRUE)
    failed = replace(traces, status=np.full(len(LOAD), RequestStatus.RESET, dtype=np.uint8))
    with pytest.raises(InputError, match="0 usable requests; expected 1 or more"):
        Run.of_traces(failed, LOAD, setting(), ReplayOutcome.VALID)


def test_the_vector_starts_at_the_data_sheet() -> None:
    free = Free((*IN_STEPS, *BETWEEN_STEPS, *BEFORE_STEPS))
    constants = free.constants(free.start)
    assert (constants.weights, constants.prefill_ms) == (1.0, 0.5)
    assert constants.request_ms == pytest.approx(16.4)
    assert len(free.names) == len(free.start)
