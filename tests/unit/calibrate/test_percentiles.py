"""Constants from percentiles: a server that is known is found again."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.calibrate.constants import Constants
from advisor.calibrate.percentiles import Played, Point, fit_percentiles, percentile_ms
from advisor.sim import EngineConfig, hardware, resolve
from advisor.terms.load import Load
from advisor.terms.measurement import Percentiles
from advisor.terms.setting import Setting
from advisor.terms.target import Metric
from advisor.terms.traces import Traces

S = 10**9
SLOW = Constants(weights=1.3, token=0.8, context=1.2, step=1.5, prefill_ms=1.0, request_ms=25.0)


def played(rps: float, seed: int = 3) -> Played:
    rng = np.random.default_rng(seed)
    n = round(30 * rps)
    at = np.sort(rng.integers(0, 30 * S, n))
    offsets = np.zeros(n + 1, dtype=np.int64)
    load = Load(
        at,
        rng.integers(100, 3000, n),
        rng.integers(50, 300, n),
        at >= 0,
        offsets,
        offsets[:0],
        0,
        512,
    )
    return Played(load, 0, 30 * S)


def config(tokens: int = 2048) -> EngineConfig:
    flags = {"max_model_len": 8192, "max_num_batched_tokens": tokens}
    return resolve(Setting.of("llama-3.1-8b", flags), hardware("h100-sxm"))


def percentiles(traces: Traces) -> tuple[Percentiles, ...]:
    found = []
    for metric in (Metric.TTFT, Metric.ITL, Metric.TPOT):
        p50, p95, p99 = (percentile_ms([traces], metric, p) for p in (50, 95, 99))
        assert p50 is not None
        assert p95 is not None
        assert p99 is not None
        found.append(Percentiles(metric, p50, p95, p99, 100))
    return tuple(found)


def point(tokens: int, rps: float) -> Point:
    load = played(rps)
    return Point(config(tokens), load, percentiles(load.on(config(tokens), SLOW)))


def test_a_server_is_found_again_well_enough_to_foretell_another_setting() -> None:
    fit = fit_percentiles([point(2048, 4), point(2048, 12)])
    for tokens, rps in ((512, 8.0), (8192, 12.0)):
        truth, told = (
            np.array(
                [[p.p50_ms, p.p95_ms] for p in percentiles(played(rps).on(config(tokens), c))]
            )
            for c in (SLOW, fit.constants)
        )
        unfitted = np.array(
            [
                [p.p50_ms, p.p95_ms]
                for p in percentiles(played(rps).on(config(tokens), Constants()))
            ]
        )
        error, before = np.abs(np.log(told / truth)), np.abs(np.log(unfitted / truth))
        assert error.max() < 0.15
        assert error.mean() < before.mean() / 2


def test_what_is_missing_or_infinite_moves_nothing() -> None:
    whole = point(2048, 4)
    broken = tuple(replace(each, p95_ms=float("inf")) for each in whole.percentiles[:1])
    errors = replace(whole, percentiles=broken).errors(Constants())
    assert np.isfinite(errors).all()
    assert (errors[1:] == 0).all()
    assert errors[0] != 0


def test_a_percentile_of_nothing_is_none() -> None:
    load = played(4)
    traces = load.on(config(), Constants())
    nothing = replace(traces, counted=np.zeros_like(traces.counted))
    assert percentile_ms([nothing], Metric.TTFT, 95) is None
    one = percentile_ms([traces], Metric.TTFT, 95)
    assert one is not None
    assert one == pytest.approx(
        np.percentile(
            (traces.event_ns[traces.event_offsets[:-1]] - traces.planned_ns) / 1e6,
            95,
            method="inverted_cdf",
        )
    )
