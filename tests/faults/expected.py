"""What a job must make of each fault, stated here and not read from the program."""

from dataclasses import dataclass

from advisor.standin.faults import Fault
from advisor.terms.outcome import Reason, ReplayOutcome, TrialState
from tests.faults.jobs import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Expected:
    """How the trials of a setting with the fault end."""

    state: TrialState
    reason: Reason | None = None
    #: the first one and its retries
    launches: int = 1
    #: whether the job goes on with the next setting
    goes_on: bool = True
    #: how the replays of each launch end, in their order; None: as they like
    replays: tuple[ReplayOutcome, ...] | None = None
    #: at least this share of the requests fails
    errors: float = 0.0
    limits: Limits = DEFAULT_LIMITS


def infeasible(reason: Reason, limits: Limits = DEFAULT_LIMITS) -> Expected:
    return Expected(TrialState.INFEASIBLE, reason, limits=limits)


def transient(reason: Reason, limits: Limits = DEFAULT_LIMITS) -> Expected:
    """Not the setting's fault: launched once more, then left out."""
    return Expected(TrialState.FAILED, reason, launches=2, limits=limits)


def blocks(reason: Reason, limits: Limits = DEFAULT_LIMITS) -> Expected:
    return Expected(TrialState.FAILED, reason, goes_on=False, limits=limits)


SERVES = Expected(TrialState.MEASURED)
#: of every third request
LOSES_SOME = Expected(TrialState.MEASURED, errors=0.2)

EXPECTED = {
    Fault.INVALID_SETTING: infeasible(Reason.INVALID_SETTING),
    Fault.REMOVED_FLAG: infeasible(Reason.INVALID_SETTING),
    Fault.UNSUPPORTED: infeasible(Reason.UNSUPPORTED),
    Fault.MODEL_UNAVAILABLE: Expected(TrialState.FAILED, Reason.MODEL_UNAVAILABLE),
    Fault.OOM_LOAD: infeasible(Reason.OOM_LOAD),
    Fault.OOM_PROFILING: infeasible(Reason.OOM_PROFILING),
    Fault.OOM_GRAPH_CAPTURE: infeasible(Reason.OOM_GRAPH_CAPTURE),
    Fault.OOM_SAMPLER: infeasible(Reason.OOM_SAMPLER),
    Fault.KV_CACHE_TOO_SMALL: infeasible(Reason.KV_CACHE_TOO_SMALL),
    Fault.MEMORY_TAKEN: transient(Reason.MEMORY_TAKEN),
    Fault.MEMORY_RACE: transient(Reason.MEMORY_TAKEN),
    Fault.PORT_TAKEN: transient(Reason.PORT_TAKEN),
    Fault.DRIVER_FAULT: blocks(Reason.DRIVER_FAULT),
    Fault.UNCLASSIFIED: transient(Reason.UNCLASSIFIED),
    Fault.DIED: infeasible(Reason.DIED),
    # long enough for the job's other launches on a busy machine
    Fault.START_STALLED: transient(Reason.START_STALLED, Limits(start_stall_s=8.0)),
    Fault.START_TOO_SLOW: infeasible(Reason.START_TOO_SLOW, Limits(start_s=20.0)),
    Fault.WRONG_SERVER: transient(Reason.WRONG_SERVER),
    Fault.OOM_UNDER_LOAD: infeasible(Reason.OOM_UNDER_LOAD),
    Fault.CRASH: infeasible(Reason.CRASHED_UNDER_LOAD),
    Fault.CRASH_AT_REST: infeasible(Reason.CRASHED_UNDER_LOAD),
    Fault.DEAD_ENGINE: infeasible(Reason.CRASHED_UNDER_LOAD),
    Fault.HANG: transient(Reason.HUNG, Limits(stall_s=4.0)),
    Fault.COLD: SERVES,
    Fault.SLOWING: SERVES,
    Fault.ERROR_EVENT: LOSES_SOME,
    Fault.SHORT_ANSWER: LOSES_SOME,
    Fault.RESET: LOSES_SOME,
    Fault.OVERLOADED: LOSES_SOME,
    Fault.GARBAGE_SSE: LOSES_SOME,
    Fault.SPLIT_SSE: SERVES,
    Fault.MISSING_DONE: SERVES,
    Fault.SLOW_HEALTH: SERVES,
    Fault.KNOB_IGNORED: SERVES,
    Fault.NO_METRICS: SERVES,
    # three replays of each launch are void
    Fault.WARM_CACHE: Expected(
        TrialState.FAILED, launches=2, replays=(ReplayOutcome.CONTAMINATED,) * 3
    ),
    Fault.JIT: Expected(TrialState.MEASURED, replays=(ReplayOutcome.NOISY, ReplayOutcome.VALID)),
    Fault.REFUSES_TO_DIE: SERVES,
    Fault.OWN_SESSION: SERVES,
    Fault.NOT_RELEASED: blocks(Reason.NOT_RELEASED, Limits(release_s=3.0)),
}
