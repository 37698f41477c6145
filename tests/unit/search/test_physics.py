import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from advisor.calibrate.constants import Constants
from advisor.calibrate.percentiles import Played, percentile_ms
from advisor.search.physics import DRAWS, Physics, worst_excess
from advisor.sim import hardware, resolve
from advisor.terms.job import TrialResult
from advisor.terms.load import Load
from advisor.terms.measurement import Judgement, Measurement, Percentiles
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import DEFAULT_ERRORS, Metric, Target, Verdict, parse_target

S = 10**9
H100 = hardware("h100-sxm")
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LOOSE = (parse_target("ttft:p95<=1500ms"), parse_target("itl:p99<=60ms"), DEFAULT_ERRORS)
TIGHT_ITL = (parse_target("ttft:p95<=5000ms"), parse_target("itl:p99<=25ms"))


@cache
def traffic(multiple: float) -> Played:
    """Twenty seconds of 4 requests a second, times the multiple."""
    rng = np.random.default_rng(1)
    n = round(80 * multiple)
    at = np.sort(rng.integers(0, 20 * S, n))
    offsets = np.zeros(n + 1, dtype=np.int64)
    prompt, output = rng.integers(100, 4000, n), rng.integers(20, 200, n)
    return Played(Load(at, prompt, output, at >= 0, offsets, offsets[:0], 0, 512), 0, 20 * S)


def physics(targets: tuple[Target, ...] = LOOSE) -> Physics:
    return Physics(traffic, H100, targets, MULTIPLES, seed=1)


def setting(**flags: int | float | bool) -> Setting:
    return Setting.of("llama-3.1-8b", {"max_model_len": 8192, **flags}, tuple(flags))


def batched(tokens: int) -> Setting:
    return setting(max_num_batched_tokens=tokens)


def told(of: Setting, constants: Constants, targets: tuple[Target, ...] = LOOSE) -> TrialResult:
    """What a server of these constants measures at three loads."""
    found = []
    for multiple in (0.5, 1.0, 2.0):
        traces = traffic(multiple).on(resolve(of, H100), constants)
        values = {
            metric: [percentile_ms([traces], metric, p) or 0.0 for p in (50, 95, 99)]
            for metric in (Metric.TTFT, Metric.ITL, Metric.TPOT)
        }
        judged = tuple(
            Judgement(t, Verdict.MET, 1.0, None, None, None, None, None, 1, 1, 0.95)
            for t in targets
        )
        found.append(
            Measurement(
                multiple,
                tuple(Percentiles(metric, a, b, c, 100) for metric, (a, b, c) in values.items()),
                judged,
                1.0,
                1.0,
                1.0,
                0.0,
                80,
                1,
            )
        )
    return TrialResult(TrialState.MEASURED, measurements=tuple(found))


def test_fewer_batched_tokens_carry_more_where_itl_is_what_limits() -> None:
    small, large = physics(TIGHT_ITL).expect([batched(512), batched(8192)]).log_headroom
    assert small > large


def test_headroom_lies_where_the_targets_begin_to_be_missed() -> None:
    found = math.exp(physics().expect([batched(2048)]).log_headroom[0])
    config = resolve(batched(2048), H100)
    below = max(m for m in MULTIPLES if m <= found)
    above = min(m for m in MULTIPLES if m >= found)
    servers = Constants(prefill_ms=0.5, request_ms=16.4)
    assert worst_excess([traffic(below).on(config, servers)], LOOSE) <= 0
    assert worst_excess([traffic(above).on(config, servers)], LOOSE) > 0


def test_servers_drawn_differ_before_a_launch_and_less_after_it() -> None:
    search = physics()
    before = search.expect([batched(512), batched(4096)])
    assert before.deviations.shape == (2, DRAWS)
    search.learn(batched(2048), told(batched(2048), Constants(prefill_ms=0.5, request_ms=16.4)))
    after = search.expect([batched(512), batched(4096)])
    assert after.deviations.std() < before.deviations.std()


def test_a_launch_on_a_slower_server_lowers_what_all_settings_are_expected_to_carry() -> None:
    search = physics()
    settings = [batched(512), batched(1024), batched(4096)]
    before = search.expect(settings).log_headroom
    slow = Constants(weights=1.6, token=1.6, context=1.6, step=1.6, prefill_ms=2, request_ms=30)
    search.learn(batched(2048), told(batched(2048), slow))
    after = search.expect(settings).log_headroom
    assert (after < before - 0.1).all()


def test_what_cannot_start_is_not_expected_to() -> None:
    never = setting(max_num_batched_tokens=512, enable_chunked_prefill=False)
    crowded = setting(gpu_memory_utilization=0.1)
    starts = physics().expect([batched(2048), never, crowded]).starts
    assert starts[1] == 0
    assert 0 < starts[2] < 0.2 < starts[0]


def test_nothing_is_forgotten_or_played_twice() -> None:
    search = physics()
    first = search.expect([batched(512)]).log_headroom
    again = search.expect([batched(1024), batched(512)]).log_headroom
    assert again[1] == first[0]


def test_a_target_that_was_relative_is_taken_as_it_was_resolved() -> None:
    search = physics((parse_target("itl:p99<=0.6x"),))
    search.learn(batched(2048), told(batched(2048), Constants(), TIGHT_ITL))
    assert search.targets == TIGHT_ITL
    assert np.isfinite(search.expect([batched(512)]).log_headroom).all()


@pytest.mark.parametrize("state", [TrialState.INFEASIBLE, TrialState.FAILED])
def test_a_launch_that_measured_nothing_teaches_nothing(state: TrialState) -> None:
    search = physics()
    before = search.expect([batched(512)]).log_headroom
    search.learn(batched(2048), TrialResult(state))
    assert (search.expect([batched(512)]).log_headroom == before).all()


def with_flags(of: Setting, **flags: str | int | bool) -> Setting:
    return Setting.of(of.model, {**dict(of.flags), **flags}, of.knobs)


def test_a_flag_that_is_not_modelled_hides_nothing_else() -> None:
    """Nor is a setting with one believed not to start."""
    told_of = [batched(512), batched(4096)]
    others = [with_flags(each, enable_auto_tool_choice=True) for each in told_of]
    others = [with_flags(each, stream_interval=4) for each in others]
    plain, found = physics().expect(told_of), physics().expect(others)
    assert (found.log_headroom == plain.log_headroom).all()
    assert (found.starts == plain.starts).all()
    search = physics()
    before = search.expect(told_of).log_headroom
    search.learn(others[0], told(told_of[0], Constants(weights=1.6, token=1.6, step=1.6)))
    assert (search.expect(told_of).log_headroom < before).all()


def test_of_a_checkpoint_that_is_not_known_nothing_is_foretold() -> None:
    other = Setting.of("somebody/some-awq", {"max_model_len": 8192}, ())
    known = [batched(512), batched(1024), batched(4096)]
    found = physics().expect([*known, other])
    assert found.log_headroom[3] == np.median(found.log_headroom[:3])
    assert 0.5 < found.starts[3] < found.starts[0]
    assert np.isfinite(physics().expect([other]).log_headroom).all()
    search = physics()
    search.learn(other, told(batched(512), Constants()))
    assert (search.expect(known).log_headroom == physics().expect(known).log_headroom).all()


def test_where_the_baseline_cannot_be_played_its_limits_are_taken_all_the_same() -> None:
    search = physics((parse_target("itl:p99<=0.6x"),))
    small = setting(gpu_memory_utilization=0.1)
    search.learn(small, told(batched(2048), Constants(), TIGHT_ITL))
    assert search.targets == TIGHT_ITL


def test_a_target_without_samples_is_missed() -> None:
    load = traffic(1.0).load
    silent = Played(replace(load, output_length=np.ones_like(load.output_length)), 0, 20 * S)
    traces = silent.on(resolve(batched(2048), H100), Constants())
    assert worst_excess([traces], LOOSE) > 2


@pytest.mark.parametrize("seed", [-1, 2**70])
def test_any_seed_will_do(seed: int) -> None:
    search = Physics(traffic, H100, LOOSE, MULTIPLES, seed=seed)
    search.learn(batched(2048), told(batched(2048), Constants()))
    assert np.isfinite(search.expect([batched(512)]).log_headroom).all()
