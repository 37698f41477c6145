"""What the settings trade for each other: TTFT, ITL and headroom of all that were measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.advice.choose import diff
from advisor.terms.job import JobSpec, Trial
from advisor.terms.measurement import Headroom, Measurement
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target

#: The percentiles looked at where no target names one.
_USUAL = {Metric.TTFT: 95.0, Metric.ITL: 99.0}


@dataclass(frozen=True, slots=True)
class Spot:
    """One setting, measured at the job's load; latencies in ms, infinite where failures reach."""

    trial: int
    #: against the baseline, empty for the baseline itself
    changes: tuple[str, ...]
    ttft_ms: float
    itl_ms: float
    headroom: Headroom | None
    #: no other setting is as good in all three by the estimates, and better in one
    on_curve: bool = False


@dataclass(frozen=True, slots=True)
class TradeOff:
    """Settings that were measured to their end at the job's load; those cut short are not here."""

    multiple: float
    #: of `Spot.ttft_ms` and `Spot.itl_ms`
    ttft_percentile: float
    itl_percentile: float
    #: ascending by TTFT
    spots: tuple[Spot, ...]


def trade_off(
    trials: Sequence[Trial], targets: Sequence[Target], spec: JobSpec, baseline: Setting | None
) -> TradeOff:
    """Of the search's trials, the baseline among them."""
    ttft, itl = (_percentile(metric, targets) for metric in (Metric.TTFT, Metric.ITL))
    spots = []
    for trial in trials:
        measured = trial.result.at(spec.load)
        if measured is None or measured.stopped:
            continue
        ttft_ms = _latency_ms(measured, Metric.TTFT, ttft)
        itl_ms = _latency_ms(measured, Metric.ITL, itl)
        if ttft_ms is not None and itl_ms is not None:
            changes = diff(trial.setting, baseline) if baseline else ()
            spots.append(Spot(trial.number, changes, ttft_ms, itl_ms, trial.result.headroom))
    marked = [replace(s, on_curve=not any(_beats(other, s) for other in spots)) for s in spots]
    ranked = sorted(marked, key=lambda spot: (spot.ttft_ms, spot.itl_ms, spot.trial))
    return TradeOff(spec.load, ttft, itl, tuple(ranked))


def _percentile(metric: Metric, targets: Sequence[Target]) -> float:
    """The highest that a target names."""
    named = [t.percentile for t in targets if t.metric is metric and t.percentile is not None]
    return max(named, default=_USUAL[metric])


def _latency_ms(measured: Measurement, metric: Metric, percentile: float) -> float | None:
    for judgement in measured.judgements:
        if (judgement.target.metric, judgement.target.percentile) == (metric, percentile):
            return judgement.estimate
    found = next((p for p in measured.percentiles if p.metric is metric), None)
    if found is None:
        return None
    return {50.0: found.p50_ms, 95.0: found.p95_ms, 99.0: found.p99_ms}.get(percentile)


def _beats(one: Spot, other: Spot) -> bool:
    """As good in everything, and better in something."""
    ours, theirs = _figures(one), _figures(other)
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))


def _figures(spot: Spot) -> tuple[float, float, float]:
    """Each the better the lower."""
    carried = spot.headroom.estimate if spot.headroom else 0.0
    return spot.ttft_ms, spot.itl_ms, -carried
