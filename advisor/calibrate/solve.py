"""Robust least squares with a prior, and how sure its answer is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import least_squares

from advisor.calibrate.constants import Constants, Float64, Free

#: Step of the numeric derivatives, and starts of the search, in units of the prior: a simulated
#: run changes in small jumps, of which these see past most.
_STEP = 0.04
_STARTS = (0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Constants with their uncertainty."""

    free: Free
    vector: Float64
    #: of the vector
    covariance: Float64
    #: median absolute residual by metric, in per cent
    residuals_pct: dict[str, float]
    samples: int

    @property
    def constants(self) -> Constants:
        return self.free.constants(self.vector)

    def interval(self, name: str, deviations: float = 2.0) -> tuple[float, float]:
        """One constant, so many standard deviations down and up."""
        place = self.free.names.index(name)
        spread = np.zeros_like(self.vector)
        spread[place] = deviations * np.sqrt(self.covariance[place, place])
        low, high = self.free.bounds
        ends = [
            getattr(self.free.constants(np.clip(end, low, high)), name)
            for end in (self.vector - spread, self.vector + spread)
        ]
        return ends[0], ends[1]

    def draw(self, count: int, seed: int, more_spread: float = 0.0) -> list[Constants]:
        """Constants that are as likely, for bands; `more_spread` widens each, in its units."""
        rng = np.random.default_rng(seed % 2**64)
        covariance = self.covariance + more_spread**2 * np.eye(len(self.vector))
        low, high = self.free.bounds
        vectors = rng.multivariate_normal(self.vector, covariance, count, check_valid="ignore")
        return [self.free.constants(each) for each in np.clip(vectors, low, high)]


def solve(
    free: Free,
    residuals: Callable[[Constants], Float64],
    shares_pct: Callable[[Constants], dict[str, float]],
    *,
    starts: Sequence[float] = _STARTS,
    evaluations: int = 60,
    begin: Float64 | None = None,
) -> Fit:
    """The constants with the least robust residuals plus prior, sought from `begin` on, by default
    from the data sheet's.

    `residuals` are in units of their own spread. The loss grows with their square near 0 and
    linearly far out (`soft_l1`), so a stall does not bend the fit.
    """

    def weighted(vector: Float64) -> Float64:
        # The prior is quadratic: what the runs do not show must come back to it.
        return np.concatenate((_robust(residuals(free.constants(vector))), vector - free.start))

    found = [
        least_squares(
            weighted,
            (free.start if begin is None else begin) + offset * _start_of(free),
            jac=partial(_slopes, weighted),
            bounds=free.bounds,
            max_nfev=evaluations,
        )
        for offset in starts
    ]
    best = min(found, key=lambda each: float(each.cost))
    remaining, jacobian = np.asarray(best.fun), np.asarray(best.jac)
    count = len(remaining) - len(free.start)
    # Residuals larger than expected say that the model or the spread is wrong: it widens.
    scale = max(1.0, float(remaining[:count] @ remaining[:count]) / max(count, 1))
    information = jacobian[:count].T @ jacobian[:count] / scale + np.eye(len(free.start))
    return Fit(
        free=free,
        vector=best.x,
        covariance=np.linalg.inv(information),
        residuals_pct=shares_pct(free.constants(best.x)),
        samples=count,
    )


def _slopes(of: Callable[[Float64], Float64], at: Float64) -> Float64:
    """float64[residuals, constants]: forward differences of one size, also at 0.

    SciPy's own `diff_step` is relative to the vector, and these begin at 0.
    """
    here = of(at)
    slopes = [(of(at + step) - here) / _STEP for step in _STEP * np.eye(len(at))]
    return np.stack(slopes, axis=1)


def _start_of(free: Free) -> Float64:
    """Other starts differ in what a data sheet cannot tell: the cost of a request in prefill."""
    return np.array([float(name == "prefill_ms") for name in free.names])


def _robust(residuals: Float64) -> Float64:
    """Numbers whose square is the soft L1 loss of the residuals."""
    loss: Float64 = np.sign(residuals) * np.sqrt(2 * (np.sqrt(1 + residuals**2) - 1))
    return loss
