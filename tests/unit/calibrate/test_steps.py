"""An iteration log is followed step for step, and its times give the constants back."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.calibrate.constants import Constants
from advisor.calibrate.iterlog import LoggedStep, parse_iterations
from advisor.calibrate.relive import relive
from advisor.calibrate.steps import fit_steps, steps_ns
from advisor.sim import EngineConfig, SimRun, hardware, resolve, simulate
from advisor.sim.cost import CostModel, no_noise
from advisor.sim.steps import Limits
from advisor.terms.errors import InputError
from advisor.terms.flags import FlagValue
from advisor.terms.load import Load
from advisor.terms.profile import PlannedRequest
from advisor.terms.setting import Setting
from tests.unit.sim.loads import SECOND, poisson
from tests.unit.sim.test_scheduler import prompt_ids


def config(**changes: int | bool) -> EngineConfig:
    chosen: dict[str, FlagValue] = {"max_num_batched_tokens": 256, "max_num_seqs": 16, **changes}
    setting = Setting.of("llama-3.1-8b", {"max_model_len": 8192, **chosen})
    return replace(resolve(setting, hardware("a100-80gb-sxm")), async_scheduling=False)


def log_of(run: SimRun) -> list[str]:
    """As vLLM writes it."""
    t = run.timeline
    return [
        f"INFO 11-30 10:00:00 [loggers.py:191] Engine 000: Iteration({step}): "
        f"{t.prompt_requests[step]} context requests, {t.prompt_tokens[step]} context tokens, "
        f"{t.sequences[step] - t.prompt_requests[step]} generation requests, "
        f"{t.tokens[step] - t.prompt_tokens[step]} generation tokens, iteration elapsed time: "
        f"{t.busy_ns[step] / 1e6:.2f} ms, GPU KV cache usage: 1.0%"
        for step in range(len(t))
    ]


def launched(load: Load, setting: EngineConfig, constants: Constants | None = None) -> SimRun:
    cost = replace(CostModel.of(setting), factors=no_noise())
    cost = cost if constants is None else constants.apply(cost)
    return simulate(load, setting, window_start_ns=0, window_end_ns=SECOND, cost=cost)


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 150), st.integers(1, 60), st.integers(0, 3)),
        min_size=1,
        max_size=12,
    ),
    blocks=st.integers(17, 60),
    budget=st.integers(16, 100),
    caching=st.booleans(),
)
def test_every_step_of_a_log_comes_out_again(
    requests: list[tuple[int, int, int, int]], blocks: int, budget: int, caching: bool
) -> None:
    chosen = config(max_num_batched_tokens=budget, max_num_seqs=8, enable_prefix_caching=caching)
    chosen = replace(chosen, memory=replace(chosen.memory, num_blocks=blocks), max_model_len=240)
    load = Load.of(
        [
            PlannedRequest(ms * 1_000_000, a, b, prompt_ids(i, a, prefix), True)
            for i, (ms, a, b, prefix) in enumerate(sorted(requests))
        ],
        24,
    )
    run = launched(load, chosen)
    found = relive(load, Limits.of(chosen), list(parse_iterations(log_of(run))))
    assert found.mismatch is None
    assert found.steps == len(run.timeline)
    assert found.prefix_hits == run.facts.prefix_cache_hits
    assert found.prefix_queries == run.facts.prefix_cache_queries
    assert (found.composition[:, 2] == run.timeline.context_tokens).all()
    assert (found.composition[:, 3] == run.timeline.prefill_pairs).all()


def test_a_step_that_differs_is_shown() -> None:
    load = Load.of(poisson(5, 5, 300, 10), 512)
    steps = list(parse_iterations(log_of(launched(load, config()))))
    steps[3] = replace(steps[3], context_tokens=7)
    found = relive(load, Limits.of(config()), steps)
    assert found.steps == 3
    assert found.mismatch is not None
    assert found.mismatch.logged == steps[3]
    assert found.mismatch.modelled[1] != 7


def test_step_times_give_the_constants_back() -> None:
    load = Load.of(poisson(8, 120, 900, 120), 512)
    setting = config()
    true = Constants(weights=1.25, token=1.4, context=0.7, step=0.6, prefill_ms=1.5)
    run = launched(load, setting, true)
    found = relive(load, Limits.of(setting), list(parse_iterations(log_of(run))))
    fit = fit_steps(found, setting)
    assert fit.residuals_pct["step"] < 0.5
    assert fit.constants.prefill_ms == pytest.approx(1.5, abs=0.5)
    low, high = fit.interval("weights")
    assert low < fit.constants.weights < high


def test_many_steps_at_once_equal_the_cost_model() -> None:
    load = Load.of(poisson(8, 40, 900, 60), 512)
    setting = config(max_num_batched_tokens=2048)
    run = launched(load, setting)
    found = relive(load, Limits.of(setting), list(parse_iterations(log_of(run))))
    cost = replace(CostModel.of(setting), factors=no_noise())
    exact = steps_ns(cost, found.composition)
    assert abs(exact - run.timeline.busy_ns).max() <= 1


def test_lines_without_a_step_are_passed_over_and_idle_steps_left_out() -> None:
    line = log_of(launched(Load.of(poisson(5, 1, 300, 2), 512), config()))[0]
    idle = line.replace("Iteration(0): 1 context requests, ", "Iteration(1): 0 context requests, ")
    found = list(parse_iterations(["INFO started", line, "", idle]))
    assert [each.index for each in found] == [0]
    assert isinstance(found[0], LoggedStep)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["Iteration(0): what"], r"line 1: 'Iteration\(0\): what'; expected"),
        (
            [
                f"Iteration({n}): 1 context requests, 1 context tokens, 0 generation requests, "
                "0 generation tokens, iteration elapsed time: 1.00 ms"
                for n in (4, 6)
            ],
            "line 2: iteration 6; expected 5",
        ),
    ],
)
def test_a_log_with_a_hole_is_refused(lines: list[str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        list(parse_iterations(lines))


def test_a_log_of_nothing_gives_no_constants() -> None:
    found = relive(Load.of([], 16), Limits.of(config()), [])
    with pytest.raises(InputError, match="0 steps of the log"):
        fit_steps(found, config())
