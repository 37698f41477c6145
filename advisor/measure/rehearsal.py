"""From simulated replays of a profile to how far the bounds on its percentiles are off.

At each load a few dozen windows are known. Pools as large as a verdict's are drawn from them, with
replacement, and so is the truth that each pool is held against: the recording is itself one of
many that could have been made, and its own percentile is as uncertain as its windows are few.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.measure.curves import Curves, Pool, pool
from advisor.measure.definitions import Float64
from advisor.measure.margin import MOST_FACTOR, margin_of
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
            tried = [
                _rehearsed(draws, (metric, percentile), confidence, n) for n in _tried(confidence)
            ]
            found.append(max(tried, key=lambda each: _decided(draws, each)))
    return tuple(found)


def _tried(confidence: float) -> list[float]:
    return [1 - (1 - confidence) / 2**k for k in range(1 + HALVINGS)]


def _decided(draws: Sequence["_Draws"], found: Rehearsed) -> float:
    """How often good limits are met, summed over the loads."""
    tight = margin_of(found).tight
    return sum(
        float(np.mean(each.uppers[found.nominal] <= tight.at(good * each.truth_ns)))
        for each in draws
        for good in GOOD
    )


def _rehearsed(
    draws: Sequence["_Draws"],
    asked: tuple[Metric, float],
    confidence: float,
    nominal: float,
) -> Rehearsed:
    """Where bounds come to lie around each load's truth."""
    rungs = []
    if draws:
        highs = _Pairs.of(draws, [each.uppers[nominal] for each in draws])
        lows = _Pairs.of(draws, [each.lowers[confidence] for each in draws])
        rank = _rank(confidence, POOLS)
        rungs = [
            Rung(
                each.multiple,
                each.truth_ns / 1e6,
                highs.least(each.truth_ns, rank) / 1e6,
                lows.most(each.truth_ns, rank) / 1e6,
            )
            for each in draws
        ]
    return Rehearsed(*asked, confidence, nominal, tuple(rungs))


def _has_percentile(windows: Sequence[Curves], metric: Metric, percentile: float) -> bool:
    whole = pool(windows, metric)
    if not len(whole):
        return False
    return 0 < whole.at(nearest_rank(_allowed(percentile), len(whole))) < math.inf


def _allowed(percentile: float) -> float:
    return round(1 - percentile / 100, 12)


class _Draws:
    """Pools of one load with their bounds, and the truth that each is held against; in ns."""

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
        self.multiple, self.truth_ns, self.truths = multiple, float(truths[0]), truths[1:]
        nominals = sorted({nominal for level in levels for nominal in _tried(level)})
        tests = [clumping(each, allowed) for each in _draws(windows, metric, pool_of, random)]
        #: level -> float64[POOLS]
        self.uppers = {n: np.array([test.test(n).upper() for test in tests]) for n in nominals}
        self.lowers = {n: np.array([test.test(n).lower() for test in tests]) for n in levels}


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Truths of all loads, each with the bound of a pool that was drawn beside it; in ns.

    Near saturation truths drawn at one load lie far apart. What a long one does to its bound says
    nothing of a limit that is short, so around a limit only the truths nearest to it count.
    """

    truths: Float64
    bounds: Float64

    @classmethod
    def of(cls, draws: Sequence[_Draws], bounds: Sequence[Float64]) -> "_Pairs":
        return cls(np.concatenate([each.truths for each in draws]), np.concatenate(bounds))

    def least(self, truth: float, rank: int) -> float:
        """The upper bound that this truth leaves, all but `rank` times; never above it."""
        near = self._near(truth)
        share = _over_truth(self.bounds[near], self.truths[near])[rank]
        found = math.pow(min(float(share), 1.0), STRETCH)
        if found * MOST_FACTOR < 1:
            # truths differ by more than the bounds on them: no share of a truth is meaningful
            found = min(float(np.sort(self.bounds[near])[rank]) / truth, 1.0)
        return truth * found * (1 - SLACK)

    def most(self, truth: float, rank: int) -> float:
        """The lower bound, never below it."""
        near = self._near(truth)
        return truth * max(
            float(_over_truth(self.bounds[near], self.truths[near])[-1 - rank]), 1.0
        )

    def _near(self, truth: float) -> Int64:
        with np.errstate(divide="ignore"):
            distance = np.abs(np.log(self.truths) - math.log(truth))
        return np.argsort(distance, kind="stable")[:POOLS]


def _rank(confidence: float, pools: int) -> int:
    """How many of the pools may be wrong."""
    return math.floor(round(PART * (1 - confidence) * (pools - 1), 9))


def _over_truth(bounds: Float64, truths: Float64) -> Float64:
    """float64[POOLS], ascending; an infinite bound on an infinite truth is right."""
    with np.errstate(invalid="ignore"):
        ratios = bounds / truths
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
