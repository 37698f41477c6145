"""A replay that may be judged, and what it was a replay of."""

from dataclasses import dataclass, field

from advisor.measure.curves import Curves
from advisor.terms.job import ServerFacts


@dataclass(frozen=True, slots=True)
class Scored:
    """A stored replay that may be judged, at any time and against any target."""

    window: str
    multiple: float
    curves: Curves
    #: over the whole replay, lead-in included: they explain, no verdict rests on them
    facts: ServerFacts = field(default_factory=ServerFacts)
