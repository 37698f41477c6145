"""Whether a replay that is still running can be ended, because its answer is certain already.

Two reasons, both from what has happened so far alone. Out of reach: even if everything still to
come, in this window and in every later one, were perfect, the verdict would be "missed". Not
stationary: requests in flight and waits both rise, beyond what chance explains, while most waits
are over the limit already: the server falls behind, and a longer replay only shows longer waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from advisor.measure.curves import Curves, curves
from advisor.measure.definitions import Float64, samples
from advisor.measure.judge import judge
from advisor.measure.looks import MOST_LOOKS, level
from advisor.measure.measure import spared
from advisor.terms.calibration import Calibration
from advisor.terms.outcome import StopReason
from advisor.terms.target import Metric, Target, Verdict
from advisor.terms.traces import MISSING, Int64, RequestStatus, Traces

#: Slices of the time so far, which are the points that a slope is fitted to.
SLICES = 20
#: Fewer requests so far show no slope worth acting on.
LEAST_REQUESTS = 60
#: Neighbouring slices share their queue: so many of them count as one independent point.
_SLICES_PER_POINT = 2.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a replay is ended before its requests are."""

    reason: StopReason
    target: Target

    def __str__(self) -> str:
        if self.reason is StopReason.OUT_OF_REACH:
            return f"{self.reason}: {self.target} is missed whatever is still to come"
        return f"{self.reason}: requests in flight and TTFT keep rising, beyond {self.target}"


@dataclass(frozen=True, slots=True)
class Question:
    """What a pool of windows is to answer, and what of it has been played."""

    #: none of them relative
    targets: Sequence[Target]
    #: of the verdict, one-sided, 0.5..1
    confidence: float
    #: pooled for the verdict, this one and those still to come among them
    windows: int
    calibration: Calibration | None = None
    #: the windows that are done
    earlier: Sequence[Curves] = ()

    @property
    def patience_ns(self) -> int:
        """After the window's end: then every request has its first token or is late for it."""
        limits = (target.limit_ns for target in self.targets if target.metric is Metric.TTFT)
        return max(limits, default=0)

    def stop(self, so_far: Traces) -> Stop | None:
        """Whether the running replay can be ended now; `so_far` as `known_at` gives it.

        Looks are taken at the level that `MOST_LOOKS` of them leave to each: stricter than the
        verdict's own, so that what stops a replay is missed with room to spare.
        """
        strict = level(self.confidence, MOST_LOOKS)
        doubtful = [target for target in self.targets if not self._could_be_met(so_far, target)]
        if not doubtful:
            return None
        played = [*self.earlier, curves(so_far)]
        whole = [*played, *spared(played, self.windows)]
        for target in doubtful:
            found = judge(whole, target, strict, self.calibration)
            if found.verdict is Verdict.MISSED:
                return Stop(StopReason.OUT_OF_REACH, target)
        for target in doubtful:
            if target.metric is Metric.TTFT and not_stationary(
                so_far, _now_ns(so_far), target.limit_ns, strict
            ):
                return Stop(StopReason.NOT_STATIONARY, target)
        return None

    def _could_be_met(self, so_far: Traces, target: Target) -> bool:
        """Whether so few samples are over the limit that no bound need be computed."""
        limit = 0.5 if target.metric is Metric.ERRORS else target.limit_ns
        values = samples(target.metric, so_far).values
        done = [each.by_metric[target.metric] for each in self.earlier]
        over = int((values > limit).sum()) + sum(int(each.over(limit).sum()) for each in done)
        planned = len(values) + sum(map(len, done))
        return over <= target.allowed_share * planned * self.windows / (len(done) + 1)


def known_at(whole: Traces, now_ns: int) -> Traces:
    """What of a replay has happened by then: requests that are open or still to be sent are
    STOPPED, the open ones end now."""
    seen = whole.event_ns <= now_ns
    counts = np.diff(np.concatenate(([0], np.cumsum(seen)))[whole.event_offsets])
    sent = (whole.sent_ns != MISSING) & (whole.sent_ns <= now_ns)
    ended = (whole.end_ns != MISSING) & (whole.end_ns <= now_ns)
    return replace(
        whole,
        sent_ns=np.where(sent, whole.sent_ns, MISSING),
        end_ns=np.where(ended, whole.end_ns, np.where(sent, now_ns, MISSING)),
        status=np.where(ended, whole.status, RequestStatus.STOPPED).astype(np.uint8),
        event_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        event_ns=whole.event_ns[seen],
        event_tokens=whole.event_tokens[seen],
    )


def _now_ns(so_far: Traces) -> int:
    """The moment up to which a replay is known."""
    open_ = (so_far.status == RequestStatus.STOPPED) & (so_far.end_ns != MISSING)
    return int(so_far.end_ns[open_].max()) if open_.any() else so_far.window_end_ns


def not_stationary(so_far: Traces, now_ns: int, limit_ns: int, confidence: float) -> bool:
    """Whether the server provably falls behind; `limit_ns` is the TTFT that is asked for.

    All must hold: least-squares slopes of requests in flight and of TTFT over time are above 0,
    each at this one-sided level; and the later half of the requests waits longer than the limit
    in its median. TTFT is looked at up to the first request that still waits for its token: the
    waits of those behind it are not known yet, and would seem to fall.
    """
    waits, waiting = _waits(so_far, now_ns)
    inside = (so_far.planned_ns <= now_ns) & (so_far.planned_ns >= so_far.window_start_ns)
    still = so_far.planned_ns[inside & waiting]
    until = int(still.min()) if len(still) else now_ns
    known = inside & (so_far.planned_ns <= until)
    if known.sum() < LEAST_REQUESTS:
        return False
    planned, waits = so_far.planned_ns[known], waits[known]
    if np.median(waits[planned > np.median(planned)]) <= limit_ns:
        return False
    in_time, means = _means(planned, waits, so_far.window_start_ns, until)
    return _rises(in_time, means, confidence) and _rises(*_in_flight(so_far, now_ns), confidence)


def _means(moments: Int64, values: Float64, start: int, end: int) -> tuple[Float64, Float64]:
    """Ends of the slices of [start, end] that hold a value, and the mean in each."""
    edges = np.linspace(start, end, SLICES + 1)
    slice_of = np.clip(np.searchsorted(edges, moments, side="right") - 1, 0, SLICES - 1)
    found = np.unique(slice_of)
    return edges[1:][found], np.array([values[slice_of == each].mean() for each in found])


def _in_flight(traces: Traces, now_ns: int) -> tuple[Float64, Float64]:
    """Ends of the slices so far, and the requests that were open there."""
    moments = np.linspace(traces.window_start_ns, now_ns, SLICES + 1)[1:]
    ends = np.where(traces.status == RequestStatus.STOPPED, now_ns + 1, traces.end_ns)
    open_at = [np.count_nonzero((traces.planned_ns <= at) & (ends > at)) for at in moments]
    return moments, np.array(open_at, dtype=np.float64)


def _waits(traces: Traces, now_ns: int) -> tuple[Float64, NDArray[np.bool_]]:
    """float64[n], ns from the planned time to the first event, or until now; bool[n], the latter
    while it may still come."""
    until = np.full(len(traces), now_ns, dtype=np.float64)
    has_event = np.diff(traces.event_offsets) > 0
    until[has_event] = traces.event_ns[traces.event_offsets[:-1][has_event]]
    return until - traces.planned_ns, ~has_event & (traces.status == RequestStatus.STOPPED)


def _rises(x: Float64, y: Float64, confidence: float) -> bool:
    """Whether the slope's one-sided t bound is above 0, neighbours counted as correlated."""
    freedom = len(x) / _SLICES_PER_POINT - 2
    if freedom <= 0:
        return False
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    error = float(np.sqrt(residual @ residual / freedom / (centred @ centred)))
    return slope > float(special.stdtrit(freedom, confidence)) * error
