"""The object that programs read: its fields are a contract."""

import json
import math
from dataclasses import replace

from advisor.advice.advise import advise, blocked
from advisor.advice.as_json import as_json, finite, measurement_json
from advisor.terms.measurement import Percentiles
from advisor.terms.target import Metric
from tests.unit.advice.examples import (
    MET,
    MISSED,
    arm,
    baseline,
    case,
    measurement,
    round_,
    setting,
    trial,
)

EVIDENCE = {"setting", "argv", "targets", "headroom", "metrics", "confirmed", "cost"}
TOP = {
    *EVIDENCE,
    *("schema", "job", "outcome", "baseline", "diff", "launches", "replays", "engine"),
    *("simulated", "confidence", "profile_sha256", "reasons", "gpu_hours"),
}
TARGET = {
    *("metric", "percentile", "limit", "unit", "asked", "verdict", "estimate", "lower", "upper"),
    *("share_over", "share_over_upper", "samples", "blocks", "confidence"),
}
METRICS = {
    *("ttft", "itl", "output_tokens_per_s", "total_tokens_per_s", "goodput_rps"),
    *("error_rate", "requests", "multiple"),
}
ITL = Percentiles(Metric.ITL, 10.0, 20.0, math.inf, 9000)


def body() -> dict[str, object]:
    met = measurement(MET)
    met = replace(met, percentiles=(*met.percentiles, ITL))
    base = baseline(measurement(MISSED))
    rounds = [round_(arm(setting(8), met), arm(setting(), measurement(MISSED)))]
    found = case([base, trial(8, met)], rounds)
    # what a program reads is what json wrote
    text = json.dumps(as_json(found.job, advise(found)), allow_nan=False)
    read: dict[str, object] = json.loads(text)
    return read


def test_the_fields_are_exactly_those_of_the_contract() -> None:
    read = body()
    assert set(read) == TOP
    assert isinstance(read["baseline"], dict)
    assert set(read["baseline"]) == EVIDENCE
    assert isinstance(read["targets"], list)
    assert all(set(target) == TARGET for target in read["targets"])
    assert isinstance(read["metrics"], dict)
    assert set(read["metrics"]) == METRICS
    assert set(read["metrics"]["itl"]) == {"p50_ms", "p95_ms", "p99_ms", "samples"}
    assert isinstance(read["engine"], dict)
    assert set(read["engine"]) == {"kind", "version", "hardware", "model"}


def test_the_values_are_the_advices() -> None:
    read = body()
    assert (read["schema"], read["job"], read["outcome"]) == (1, "1f0c9a2b", "recommended")
    assert read["setting"] == {"max_num_seqs": 8}
    assert read["argv"] == ["vllm", "serve", "m", "--max-num-seqs", "8"]
    assert read["diff"] == ["--max-num-seqs 256 -> 8"]
    assert read["headroom"] == {"low": 1.0, "high": None}
    assert read["launches"] == {"search": 2, "confirm": 6}
    assert (read["replays"], read["simulated"], read["confidence"]) == (48, True, 0.95)
    assert isinstance(read["targets"], list)
    ttft = read["targets"][0]
    assert (ttft["metric"], ttft["percentile"], ttft["limit"]) == ("ttft", 95, 1000)
    assert (ttft["unit"], ttft["verdict"], ttft["share_over_upper"]) == ("ms", "met", 0.02)
    assert read["targets"][1]["percentile"] is None


def test_what_is_infinite_or_missing_is_null_and_never_zero() -> None:
    metrics = body()["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["itl"]["p99_ms"] is None
    assert "tpot" not in metrics
    assert (finite(math.inf), finite(math.nan), finite(None), finite(0.0)) == (None, None, None, 0)


def test_advice_without_a_choice_has_the_same_fields() -> None:
    found = case([])
    read = as_json(found.job, blocked(found, "no GPU"))
    assert set(read) == TOP
    assert (read["setting"], read["baseline"], read["targets"]) == (None, None, [])


def test_a_measurement_alone() -> None:
    read = measurement_json(measurement(MISSED, 1.5))
    assert set(read) == {"multiple", "verdict", "targets", "metrics", "stopped_early"}
    assert read["stopped_early"] is False
    assert (read["multiple"], read["verdict"]) == (1.5, "missed")
