"""How much more load a setting carries: a bracket from verdicts, an estimate from the trend."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.terms.measurement import Headroom, Judgement, Measurement
from advisor.terms.target import Metric, Verdict

#: Ratios of estimate to limit are held within e^-MOST..e^MOST (about a tenth to ten times): one
#: limit missed by failures is infinitely far off and would drown the rest of the trend.
MOST = math.log(10)


def headroom(measurements: Sequence[Measurement]) -> Headroom:
    """The largest multiple at which every target is met.

    `low` is the largest met multiple below every missed one, `high` the smallest missed: a
    multiple met above a missed one is noise, since more load never helps. `estimate` is where
    the worst target's estimate / limit, made monotone in the multiple, crosses one; it stays in
    the bracket and inside the tried range. Raises ValueError when nothing was measured.
    """
    if not measurements:
        raise ValueError("headroom needs at least one measurement")
    ordered = sorted(measurements, key=lambda m: m.multiple)
    high = min((m.multiple for m in ordered if m.verdict is Verdict.MISSED), default=None)
    below = math.inf if high is None else high
    low = max(
        (m.multiple for m in ordered if m.verdict is Verdict.MET and m.multiple < below),
        default=None,
    )
    estimate = _crossing([m.multiple for m in ordered], [worst_excess(m) for m in ordered])
    if low is not None:
        estimate = max(estimate, low)
    return Headroom(low, high, min(estimate, below))


def worst_excess(measurement: Measurement) -> float:
    """log(estimate / limit) of the worst target, in -MOST..MOST; above 0 it is over its limit.

    A target without samples counts as missed by the most: a missing metric never passes.
    """
    return max((_excess(judgement) for judgement in measurement.judgements), default=-MOST)


def _excess(judgement: Judgement) -> float:
    target, estimate = judgement.target, judgement.estimate
    if estimate is None:
        return MOST
    limit = target.limit if target.metric is Metric.ERRORS else target.limit_ns / 1e6
    if estimate <= 0:
        return -MOST
    return min(max(math.log(estimate / limit), -MOST), MOST) if limit > 0 else MOST


def _crossing(multiples: list[float], excess: list[float]) -> float:
    """Where the monotone fit crosses zero, linear between log multiples; else the nearer edge."""
    fit = _rising(excess)
    inside = int((fit <= 0).sum())  # the fit rises, so these are the first ones
    if inside == 0:
        return multiples[0]
    if inside == len(multiples):
        return multiples[-1]
    below, above = fit[inside - 1], fit[inside]
    at = np.log(multiples[inside - 1 : inside + 1])
    return float(np.exp(at[0] + (at[1] - at[0]) * -below / (above - below)))


def _rising(values: list[float]) -> NDArray[np.float64]:
    """The least-squares fit that never falls, by its max-min formula (Robertson, Wright and
    Dykstra, Order Restricted Statistical Inference, 1988): a handful of points, so its cubic cost
    is nothing, where loading SciPy's optimizers would be felt at every start of the program.
    """
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return np.array(
        [
            max(
                min((sums[k] - sums[j]) / (k - j) for k in range(i + 1, len(sums)))
                for j in range(i + 1)
            )
            for i in range(len(values))
        ]
    )
