"""What a calibrated simulator expects of a setting, and how sure it is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from advisor.calibrate.constants import Constants
from advisor.calibrate.solve import Fit

#: Constants carried to other hardware are off by this much more, in units of the prior (0.5 in the
#: logarithm): carried between the two recorded GPUs TPOT was off by up to 16 %.
_CARRIED = 0.2
_DRAWS = 16


@dataclass(frozen=True, slots=True)
class Prediction:
    """A figure with its band: 95 % of what constants as likely as the fitted ones give."""

    value: float
    low: float
    high: float
    #: fitted on other hardware: show the band, never the value alone
    is_estimated: bool

    def __str__(self) -> str:
        if self.is_estimated:
            return f"estimated {self.low:.4g} .. {self.high:.4g}"
        return f"{self.value:.4g} ({self.low:.4g} .. {self.high:.4g})"


def predict(
    fit: Fit, figure: Callable[[Constants], float], *, carried: bool, seed: int = 0
) -> Prediction:
    """`figure` of the fitted constants and of others drawn around them."""
    drawn = [
        figure(each) for each in fit.draw(_DRAWS, seed, more_spread=_CARRIED if carried else 0.0)
    ]
    value = figure(fit.constants)
    low, high = np.percentile([*drawn, value], [2.5, 97.5]).tolist()
    return Prediction(value, min(low, value), max(high, value), is_estimated=carried)
