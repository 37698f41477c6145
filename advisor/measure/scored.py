"""A replay that may be judged, and what it was a replay of."""

from dataclasses import dataclass

from advisor.measure.curves import Curves


@dataclass(frozen=True, slots=True)
class Scored:
    """A stored replay that may be judged, at any time and against any target."""

    window: str
    multiple: float
    curves: Curves
