"""What is believed of settings not yet tried: several models, each weighed by what it foretold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

Float64 = NDArray[np.float64]

#: See `Model.is_kept`.
KEPT = 0.5
#: Added to variances, so that a matrix of equal rows can be factored.
_JITTER = 1e-9
_HALF_LOG_TAU = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A Gaussian belief about the scores of n settings, before any of them is measured."""

    #: among the models, before anything is known
    weight: float
    #: one of those that together keep `KEPT` of their weight, whatever is measured: the others may
    #: have been right so far, and be wrong
    is_kept: bool
    #: float64[n]
    mean: Float64
    #: float64[n, n]
    covariance: Float64
    #: one standard deviation of what a score differs by when it is measured again
    noise: float


@dataclass(frozen=True, slots=True)
class Seen:
    """One measured score."""

    #: 0..n-1
    row: int
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """A mixture of Gaussians for each of n settings."""

    #: float64[models], their sum is 1
    weights: Float64
    #: float64[models, n]
    means: Float64
    deviations: Float64

    @property
    def mean(self) -> Float64:
        """float64[n]"""
        return np.asarray(self.weights @ self.means)

    def chance_above(self, level: float | Float64) -> Float64:
        """float64[n], the probability that a score is above this one, or above its own."""
        return np.asarray(self.weights @ special.ndtr((self.means - level) / self.deviations))

    def expected_gain(self, best: float) -> Float64:
        """float64[n], the expectation of max(score - best, 0) (Jones, Schonlau and Welch, Journal
        of Global Optimization 13, 1998), over the mixture."""
        above = (self.means - best) / self.deviations
        density = np.exp(-0.5 * above**2 - _HALF_LOG_TAU)
        gain = self.deviations * (above * special.ndtr(above) + density)
        return np.asarray(self.weights @ np.maximum(gain, 0.0))


def believe(models: Sequence[Model], seen: Sequence[Seen]) -> Belief:
    """Each model conditioned on what was measured, and weighed by how well it foretold it."""
    found = [_conditioned(model, seen) for model in models]
    evidence = np.array([each[2] for each in found])
    prior = np.array([model.weight for model in models]) / sum(m.weight for m in models)
    kept = np.array([model.is_kept for model in models])
    share = _weights(prior, evidence)[kept].sum()
    least = KEPT * prior[kept].sum()
    share = max(share, least) if not kept.all() else 1.0
    weights = np.zeros(len(models))
    for group, part in ((kept, share), (~kept, 1 - share)):
        if group.any():
            weights[group] = part * _weights(prior[group], evidence[group])
    return Belief(
        weights,
        np.stack([mean for mean, _, _ in found]),
        np.stack([deviation for _, deviation, _ in found]),
    )


def _weights(prior: Float64, evidence: Float64) -> Float64:
    likely = prior * np.exp(evidence - evidence.max())
    return np.asarray(likely / likely.sum())


def _conditioned(model: Model, seen: Sequence[Seen]) -> tuple[Float64, Float64, float]:
    """(mean, deviation, log evidence), Rasmussen and Williams, Gaussian Processes for Machine
    Learning, 2006, algorithm 2.1.

    The first score counts for no model: it says how fast the machine is, not which setting is
    better.
    """
    variance = np.diag(model.covariance)
    if not seen:
        return model.mean, np.sqrt(variance + _JITTER), 0.0
    rows = [each.row for each in seen]
    noise = (model.noise**2 + _JITTER) * np.eye(len(seen))
    lower = linalg.cholesky(model.covariance[np.ix_(rows, rows)] + noise, lower=True)
    surprise = np.array([each.score for each in seen]) - model.mean[rows]
    whitened = linalg.solve_triangular(lower, surprise, lower=True)
    gain = linalg.solve_triangular(lower, model.covariance[rows], lower=True)
    left = np.maximum(variance - (gain**2).sum(axis=0), 0.0)
    evidence = -0.5 * (whitened[1:] ** 2).sum() - np.log(np.diag(lower)[1:]).sum()
    return model.mean + whitened @ gain, np.sqrt(left + _JITTER), float(evidence)


def likeness(places: Float64, length: float) -> Float64:
    """float64[n, n] of float64[n, d] coordinates: 1 at one place, and less the farther apart."""
    squared = ((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-0.5 * squared / length**2))
