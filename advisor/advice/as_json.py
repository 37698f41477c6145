"""The advice as the one JSON object that `advisor recommend --json` prints."""

import math
from dataclasses import asdict
from typing import Any

from advisor.terms.advice import Advice, Evidence
from advisor.terms.job import Job
from advisor.terms.measurement import Judgement, Measurement, Percentiles
from advisor.terms.target import Metric

#: Of the object below; raised when a field changes its meaning.
SCHEMA = 1
#: Metrics that the object lists percentiles for.
_SHOWN = (Metric.TTFT, Metric.ITL, Metric.TPOT, Metric.E2E)


def as_json(job: Job, advice: Advice) -> dict[str, Any]:
    """Plain dicts, lists and numbers; what is missing or infinite is null, never 0."""
    return {
        "schema": SCHEMA,
        "job": job.id,
        "outcome": str(advice.outcome),
        **_evidence(advice.choice),
        "baseline": _evidence(advice.baseline) if advice.baseline else None,
        "diff": list(advice.diff),
        "launches": {"search": advice.search_launches, "confirm": advice.confirm_launches},
        "replays": advice.replays,
        "gpu_hours": advice.gpu_hours,
        "engine": {
            "kind": advice.engine.kind,
            "version": advice.engine.version,
            "hardware": advice.engine.hardware,
            "model": advice.engine.model,
        },
        "simulated": advice.engine.simulated,
        "confidence": advice.confidence,
        "profile_sha256": advice.profile_sha256,
        "reasons": list(advice.reasons),
    }


def _evidence(evidence: Evidence | None) -> dict[str, Any]:
    if evidence is None:
        return {
            "setting": None,
            "argv": None,
            "targets": [],
            "headroom": None,
            "metrics": None,
            "confirmed": False,
            "cost": None,
        }
    measurement, headroom = evidence.measurement, evidence.headroom
    return {
        "setting": dict(evidence.setting.flags),
        "argv": ["vllm", "serve", *evidence.setting.argv()],
        "targets": [_target(j) for j in measurement.judgements] if measurement else [],
        "headroom": {"low": headroom.low, "high": headroom.high} if headroom else None,
        "metrics": _metrics(measurement) if measurement else None,
        "confirmed": evidence.confirmed,
        "cost": None if evidence.cost is None else asdict(evidence.cost),
    }


def _target(judgement: Judgement) -> dict[str, Any]:
    target = judgement.target
    return {
        "metric": str(target.metric),
        "percentile": target.percentile,
        "limit": target.limit,
        "unit": str(target.unit),
        "asked": target.asked,
        "verdict": str(judgement.verdict),
        "estimate": finite(judgement.estimate),
        "lower": finite(judgement.lower),
        "upper": finite(judgement.upper),
        "share_over": judgement.share_over,
        "share_over_upper": judgement.share_over_upper,
        "samples": judgement.samples,
        "blocks": judgement.blocks,
        "confidence": judgement.confidence,
    }


def measurement_json(measurement: Measurement) -> dict[str, Any]:
    """One load multiple of one trial, with its verdict."""
    return {
        "multiple": measurement.multiple,
        "verdict": str(measurement.verdict),
        "targets": [_target(j) for j in measurement.judgements],
        "metrics": _metrics(measurement),
        "stopped_early": measurement.stopped,
    }


def _metrics(measurement: Measurement) -> dict[str, Any]:
    by_metric = {p.metric: p for p in measurement.percentiles}
    shown = {str(m): _percentiles(by_metric[m]) for m in _SHOWN if m in by_metric}
    return {
        **shown,
        "output_tokens_per_s": measurement.output_tokens_per_s,
        "total_tokens_per_s": measurement.total_tokens_per_s,
        "goodput_rps": measurement.goodput_rps,
        "error_rate": measurement.error_rate,
        "requests": measurement.requests,
        "multiple": measurement.multiple,
    }


def _percentiles(percentiles: Percentiles) -> dict[str, Any]:
    return {
        "p50_ms": finite(percentiles.p50_ms),
        "p95_ms": finite(percentiles.p95_ms),
        "p99_ms": finite(percentiles.p99_ms),
        "samples": percentiles.samples,
    }


def finite(value: float | None) -> float | None:
    """JSON has no infinity: a percentile that failures push out of reach is null."""
    return value if value is not None and math.isfinite(value) else None
