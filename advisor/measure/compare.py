"""Two settings side by side: the ratio of one percentile over paired launches."""

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from scipy import special

from advisor.measure.curves import Curves, pool
from advisor.measure.tail import nearest_rank
from advisor.terms.measurement import Comparison, RateComparison
from advisor.terms.target import Metric

#: With fewer the spread between launches is not known well enough to claim an interval.
LEAST_PAIRS = 3


class Difference(StrEnum):
    """What a comparison shows of ours against theirs."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_SHOWN = "no difference shown"


def compare(
    pairs: Sequence[tuple[Curves, Curves]], metric: Metric, percentile: float, confidence: float
) -> Comparison | None:
    """Ours over theirs for a latency percentile (50..100), two-sided at `confidence` (0..1).

    Each pair is one window replayed on two fresh launches, one per setting; pairs are the
    replicates. A t interval on the logarithm of the ratio, since latencies differ by factors.
    None with fewer than three pairs, or where a percentile is missing, infinite or zero, since no
    ratio exists then. Raises ValueError for the error rate, which has no percentile.
    """
    if metric is Metric.ERRORS:
        raise ValueError("errors is a rate; only latencies are compared by a percentile")
    if len(pairs) < LEAST_PAIRS:
        return None
    logs = [
        _log_ratio(*(_percentile(side, metric, percentile) for side in pair)) for pair in pairs
    ]
    found = [log for log in logs if log is not None]
    if len(found) < len(pairs):
        return None
    ratio, lower, upper = _interval(found, confidence)
    return Comparison(metric, percentile, ratio, lower, upper, len(pairs))


def compare_rates(
    pairs: Sequence[tuple[float, float]], confidence: float
) -> RateComparison | None:
    """Ours over theirs for a rate that is better the higher it is, two-sided at `confidence`.

    Pairs and interval are those of `compare`. None with fewer than three pairs, or where a rate is
    zero or infinite, since no ratio exists then.
    """
    logs = [log for pair in pairs if (log := _log_ratio(*pair)) is not None]
    if len(logs) < max(len(pairs), LEAST_PAIRS):
        return None
    ratio, lower, upper = _interval(logs, confidence)
    return RateComparison(ratio, lower, upper, len(pairs))


def _interval(logs: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """Ratio, lower and upper end, from the logarithms of at least three ratios."""
    ratios = np.array(logs, dtype=np.float64)
    mean = float(ratios.mean())
    error = float(ratios.std(ddof=1)) / math.sqrt(len(ratios))
    reach = float(special.stdtrit(len(ratios) - 1, (1 + confidence) / 2)) * error
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def difference(comparison: Comparison) -> Difference:
    """FASTER or SLOWER only when the whole interval lies on one side of 1."""
    if comparison.upper_ratio < 1:
        return Difference.FASTER
    return Difference.SLOWER if comparison.lower_ratio > 1 else Difference.NOT_SHOWN


def _percentile(replay: Curves, metric: Metric, percentile: float) -> float | None:
    sample = pool([replay], metric)
    if not len(sample):
        return None
    return sample.at(nearest_rank(1 - percentile / 100, len(sample)))


def _log_ratio(ours: float | None, theirs: float | None) -> float | None:
    if ours is None or theirs is None or not all(0 < v < math.inf for v in (ours, theirs)):
        return None
    return math.log(ours / theirs)


def noise_band(
    launches: Sequence[Curves], metric: Metric, percentile: float, confidence: float
) -> float | None:
    """The factor by which one setting differs from itself, two-sided at `confidence` (0..1).

    `launches` are replays of one setting, each on a launch of its own. If both sides of a
    comparison were that setting, with as many launches each, the ratio would lie between
    1 / factor and factor: the t reach of the difference of two means of logarithms. The windows
    differ as well, where those of a pair do not, so the band is rather too wide. None with fewer
    than three launches, or where a percentile is missing, infinite or zero.
    """
    if len(launches) < LEAST_PAIRS:
        return None
    found = [_percentile(replay, metric, percentile) for replay in launches]
    logs = [_log_ratio(value, 1.0) for value in found]
    if any(log is None for log in logs):
        return None
    spread = float(np.array(logs, dtype=np.float64).std(ddof=1)) * math.sqrt(2 / len(logs))
    return math.exp(float(special.stdtrit(len(logs) - 1, (1 + confidence) / 2)) * spread)
