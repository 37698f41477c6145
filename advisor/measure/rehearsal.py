"""From simulated replays of a profile to how far the bounds on its percentiles are off.

At each load a few dozen windows are known. Pools as large as a verdict's are drawn from them, with
replacement, and so is the truth that each pool is held against: the recording is itself one of
many that could have been made, and its own percentile is as uncertain as its windows are few.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from advisor.measure.curves import Curves, Pool, pool
from advisor.measure.definitions import Float64
from advisor.measure.margin import MOST_FACTOR
from advisor.measure.tail import clumping, nearest_rank
from advisor.terms.calibration import Rehearsed, Rung
from advisor.terms.target import Metric
from advisor.terms.traces import Int64

#: Drawn at each load.
POOLS = 200
#: Of the error that is allowed, what the quantile over pools may use. The rest is for what the
#: recording does not show: on windows of other recordings, bounds near saturation covered up to 8
#: points less than on those they were calibrated with.
PART = 0.5
#: What bounds were seen to be off by is raised to this power and lessened by this share: how far
#: they can be off is itself an estimate from the windows of one recording.
STRETCH, SLACK = 1.1, 0.02
#: Nominal levels that are tried: the error asked for, and this often halved.
HALVINGS = 2
#: Limits that a nominal level is chosen by, as multiples of the true percentile: the one that,
#: with the margin it needs, calls most pools "met" there.
GOOD = (1.25, 1.5, 2.0)
#: Of the sample, as a multiple of the allowed share: a truth drawn is taken to lie in this tail.
_TAIL = 6.0


def rehearse_bounds(
    runs: Mapping[float, Sequence[Curves]],
    asked: Sequence[tuple[Metric, float]],
    levels: Sequence[float],
    pool_of: int,
    recorded: int,
    seed: int,
) -> tuple[Rehearsed, ...]:
    """For each (metric, percentile) asked, at each one-sided level (0.5..1).

    `runs` are the windows simulated at each load multiple, `pool_of` how many windows a verdict
    pools, `recorded` how many the recording holds. A load at which a metric has no samples, or no
    finite percentile, is left out.
    """
    found = []
    for metric, percentile in asked:
        draws = [
            _Draws(windows, multiple, (metric, percentile), levels, (pool_of, recorded), seed)
            for multiple, windows in sorted(runs.items())
            if _has_percentile(windows, metric, percentile)
        ]
        for confidence in levels:
            nominal = max(_tried(confidence), key=lambda n: _decided(draws, confidence, n))
            rungs = tuple(each.rung(confidence, nominal) for each in draws)
            found.append(Rehearsed(metric, percentile, confidence, nominal, rungs))
    return tuple(found)


def _tried(confidence: float) -> list[float]:
    return [1 - (1 - confidence) / 2**k for k in range(1 + HALVINGS)]


def _decided(draws: Sequence["_Draws"], confidence: float, nominal: float) -> float:
    """How often good limits are met, summed over the loads."""
    return sum(each.decided(confidence, nominal) for each in draws)


def _has_percentile(windows: Sequence[Curves], metric: Metric, percentile: float) -> bool:
    whole = pool(windows, metric)
    if not len(whole):
        return False
    return 0 < whole.at(nearest_rank(_allowed(percentile), len(whole))) < math.inf


def _allowed(percentile: float) -> float:
    return round(1 - percentile / 100, 12)


class _Draws:
    """Pools of one load with their bounds, over the truth that each is held against."""

    def __init__(
        self,
        windows: Sequence[Curves],
        multiple: float,
        asked: tuple[Metric, float],
        levels: Sequence[float],
        sizes: tuple[int, int],
        seed: int,
    ) -> None:
        (metric, percentile), (pool_of, recorded) = asked, sizes
        random, allowed = np.random.default_rng(seed), _allowed(percentile)
        truths = _truths(pool(windows, metric), recorded, allowed, random)
        self._multiple, self._truth = multiple, float(truths[0])
        nominals = {nominal for level in levels for nominal in _tried(level)}
        highs: dict[float, list[float]] = {nominal: [] for nominal in nominals}
        lows: dict[float, list[float]] = {level: [] for level in levels}
        for drawn in _draws(windows, metric, pool_of, random):
            clumped = clumping(drawn, allowed)
            for nominal, found in highs.items():
                found.append(clumped.test(nominal).upper())
            for level, found in lows.items():
                found.append(clumped.test(level).lower())
        self._highs = {key: _over_truth(found, truths[1:]) for key, found in highs.items()}
        self._lows = {key: _over_truth(found, truths[1:]) for key, found in lows.items()}

    def rung(self, confidence: float, nominal: float) -> Rung:
        lows = self._lows[confidence]
        lower = float(lows[-1 - _rank(confidence, len(lows))])
        ms = self._truth / 1e6
        upper_ms = ms * self._least_upper(confidence, nominal)
        return Rung(self._multiple, ms, upper_ms, ms * max(lower, 1.0))

    def decided(self, confidence: float, nominal: float) -> float:
        least = self._least_upper(confidence, nominal)
        if least * MOST_FACTOR < 1:
            return 0.0
        return sum(float(np.mean(self._highs[nominal] <= good * least)) for good in GOOD)

    def _least_upper(self, confidence: float, nominal: float) -> float:
        """Over the truth; at most 1, since no limit is loosened."""
        highs = self._highs[nominal]
        least = float(highs[_rank(confidence, len(highs))])
        return math.pow(min(least, 1.0), STRETCH) * (1 - SLACK)


def _rank(confidence: float, pools: int) -> int:
    """How many of the pools may be wrong."""
    return math.floor(round(PART * (1 - confidence) * (pools - 1), 9))


def _over_truth(bounds: Sequence[float], truths: Float64) -> Float64:
    """float64[POOLS], ascending; an infinite bound on an infinite truth is right."""
    with np.errstate(invalid="ignore"):
        ratios = np.array(bounds) / truths
    return np.sort(np.nan_to_num(ratios, nan=1.0, posinf=math.inf))


def _draws(
    windows: Sequence[Curves], metric: Metric, pool_of: int, random: np.random.Generator
) -> Iterator[Pool]:
    for rows in random.integers(len(windows), size=(POOLS, pool_of)):
        yield pool([windows[row] for row in rows], metric)


def _truths(whole: Pool, recorded: int, allowed: float, random: np.random.Generator) -> Float64:
    """float64[1 + POOLS], ns: the percentile of all windows, then of so many drawn from them."""
    windows = len(whole.parts)
    parts = [(part.values, np.diff(part.starts), part.totals.sum()) for part in whole.parts]
    floor = whole.at(max(len(whole) - 1 - math.floor(min(0.5, _TAIL * allowed) * len(whole)), 0))
    values = np.concatenate([values[values >= floor] for values, _, _ in parts])
    counts = np.concatenate([count[values >= floor] for values, count, _ in parts])
    owner = np.repeat(np.arange(windows), [int((values >= floor).sum()) for values, _, _ in parts])
    order = np.argsort(-values, kind="stable")
    values, counts, owner = values[order], counts[order], owner[order]
    totals = np.array([total for _, _, total in parts])
    drawn = random.integers(windows, size=(POOLS, recorded))
    weights = [np.ones(windows)] + [
        np.bincount(row, minlength=windows).astype(np.float64) for row in drawn
    ]
    return np.array(
        [_percentile(values, counts, w[owner], allowed * (w @ totals)) for w in weights]
    )


def _percentile(values: Float64, counts: Int64, weight: Float64, most_over: float) -> float:
    """The least of the descending values that at most so many weighted samples exceed."""
    over = np.cumsum(counts * weight) - counts * weight
    inside = np.flatnonzero(over <= most_over + 1e-6)
    return float(values[inside[-1]])
