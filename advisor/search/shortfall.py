"""How far a setting was from running: the grade of those that cannot."""

from advisor.search.objective import bounded
from advisor.terms.outcome import Failure, Reason

#: Of one whose log tells neither how far off it was nor how far it came.
UNKNOWN = 1.0
#: How much of a start was still to come, by the stage that ended it, in vLLM's order.
_STILL_TO_COME = {
    "config": 1.0,
    "load": 0.85,
    "profiling": 0.7,
    "kv_cache": 0.55,
    "graph_capture": 0.4,
    "sampler": 0.4,
}
#: One that came up, and ended under the load.
_SERVED = 0.2
_UNDER_LOAD = (Reason.OOM_UNDER_LOAD, Reason.CRASHED_UNDER_LOAD)


def off_by(failure: Failure | None) -> float:
    """Above 0, more is worse: by which share memory was short (needed / available - 1, at most
    10) where the log tells, else how much of the start was still to come (1 to 0.2)."""
    if failure is None:
        return UNKNOWN
    # not a number compares as False
    if failure.shortfall is not None and failure.shortfall > 0:
        return bounded(failure.shortfall)
    if failure.reason in _UNDER_LOAD:
        return _SERVED
    return _STILL_TO_COME.get(failure.stage, UNKNOWN)
