"""What a rehearsal of the profile in the simulator showed of the bounds."""

from dataclasses import dataclass

from advisor.terms.target import Metric


@dataclass(frozen=True, slots=True)
class Rung:
    """One load of a rehearsal: where a percentile truly lies, and where its bounds fall."""

    #: of the recorded load
    multiple: float
    #: over all windows rehearsed at this load
    truth_ms: float
    #: the upper bound of a pool of windows lies below this as rarely as a bound may be wrong
    upper_ms: float
    #: the lower bound lies above this as rarely
    lower_ms: float


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One percentile with bounds that hold at one level."""

    metric: Metric
    percentile: float
    #: one-sided, 0.5..1: how often the bounds hold
    confidence: float
    #: the level that the upper bound is computed at for that, at least `confidence`
    nominal: float
    #: ascending by multiple
    rungs: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Stored on the job before its first launch, so that every verdict of it is taken alike."""

    model: str
    hardware: str
    #: simulated replays at each load
    windows: int
    rehearsed: tuple[Rehearsed, ...]

    def of(self, metric: Metric, percentile: float | None, confidence: float) -> Rehearsed | None:
        """For this percentile, at the least rehearsed level that is no lower than `confidence`,
        else at the highest; None when the percentile was not rehearsed."""
        same = [r for r in self.rehearsed if (r.metric, r.percentile) == (metric, percentile)]
        enough = [r for r in same if r.confidence >= confidence - 1e-9]
        if enough:
            return min(enough, key=lambda r: r.confidence)
        return max(same, key=lambda r: r.confidence, default=None)

    def harder(self, metric: Metric, percentile: float) -> float | None:
        """The least percentile rehearsed that is no lower: who meets it meets this one."""
        rehearsed = {r.percentile for r in self.rehearsed if r.metric is metric}
        return min((p for p in rehearsed if p >= percentile), default=None)
