"""Constants from what a job keeps of its replays: percentiles, of any settings and loads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.calibrate.constants import Constants, Float64, Free
from advisor.calibrate.solve import Fit, solve
from advisor.measure.definitions import samples
from advisor.measure.tail import nearest_rank
from advisor.sim import EngineConfig, simulate
from advisor.sim.cost import CostModel, no_noise
from advisor.terms.load import Load
from advisor.terms.measurement import Percentiles
from advisor.terms.target import Metric
from advisor.terms.traces import Traces

#: What differs between deployments of one model on one kind of device: how near reads, products
#: and attention come to the data sheet, and what a step and a request take besides.
FREE = Free(("weights", "token", "context", "step", "prefill_ms", "request_ms"))
#: How far a percentile scatters around a good model, as a share. TTFT is mostly waiting, and
#: magnifies what is wrong with a step.
_SPREADS = {
    (Metric.TTFT, 50): 0.15,
    (Metric.TTFT, 95): 0.25,
    (Metric.ITL, 50): 0.05,
    (Metric.ITL, 95): 0.15,
    (Metric.TPOT, 50): 0.05,
    (Metric.TPOT, 95): 0.10,
}


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A load for the simulator, and its counted window."""

    load: Load
    window_start_ns: int
    window_end_ns: int

    def on(self, config: EngineConfig, constants: Constants) -> Traces:
        """As the calibrated simulator plays it, without noise."""
        cost = replace(CostModel.of(config), factors=no_noise())
        return simulate(
            self.load,
            config,
            window_start_ns=self.window_start_ns,
            window_end_ns=self.window_end_ns,
            cost=constants.apply(cost),
        ).traces


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """What a server of one setting did under one load."""

    config: EngineConfig
    played: Played
    percentiles: tuple[Percentiles, ...]

    def errors(self, constants: Constants) -> Float64:
        """ln(simulated / measured) of each percentile, in units of its spread; 0 where either is
        missing or infinite: how many requests failed says nothing of a step."""
        traces = self.played.on(self.config, constants)
        measured = {each.metric: (each.p50_ms, each.p95_ms) for each in self.percentiles}
        found = []
        for (metric, percentile), spread in _SPREADS.items():
            were = measured.get(metric)
            is_ms = percentile_ms([traces], metric, percentile)
            was_ms = None if were is None else were[percentile == 95]
            usable = is_ms is not None and was_ms is not None and 0 < was_ms < np.inf
            if not usable or is_ms is None or was_ms is None or not 0 < is_ms < np.inf:
                found.append(0.0)
                continue
            found.append(float(np.log(is_ms / was_ms)) / spread)
        return np.array(found)


def percentile_ms(replays: Sequence[Traces], metric: Metric, percentile: float) -> float | None:
    """Nearest rank over the counted requests of all; None without a sample."""
    values = np.concatenate([samples(metric, each).values for each in replays])
    if not len(values):
        return None
    rank = nearest_rank(round(1 - percentile / 100, 12), len(values))
    return float(np.partition(values, rank)[rank]) / 1e6


def fit_percentiles(points: Sequence[Point], last: Fit | None = None) -> Fit:
    """Constants that explain these points of one deployment; those of a `last` fit, to some of
    them, are near, and make it quicker."""

    def residuals(constants: Constants) -> Float64:
        return np.concatenate([point.errors(constants) for point in points])

    def shares(constants: Constants) -> dict[str, float]:
        wrong = np.array([point.errors(constants) for point in points])
        found: dict[str, float] = {}
        for (metric, percentile), spread, column in zip(
            _SPREADS, _SPREADS.values(), wrong.T, strict=True
        ):
            found[f"{metric} p{percentile}"] = 100 * spread * float(np.median(np.abs(column)))
        return found

    # asked after every few launches of a search: good is enough
    if last is None:
        return solve(FREE, residuals, shares, starts=(0.0,), evaluations=12)
    return solve(FREE, residuals, shares, starts=(0.0,), evaluations=4, begin=last.vector)
