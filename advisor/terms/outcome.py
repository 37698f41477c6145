"""How a replay, a launch or a trial can end: the same names everywhere."""

from dataclasses import dataclass
from enum import StrEnum


class ReplayOutcome(StrEnum):
    """What a replay's numbers are worth."""

    VALID = "valid"
    CLIENT_BOUND = "client_bound"
    MISMATCH = "mismatch"
    CONTAMINATED = "contaminated"
    NOISY = "noisy"
    UNDERPOWERED = "underpowered"
    STOPPED_EARLY = "stopped_early"

    @property
    def is_scored(self) -> bool:
        """Whether a verdict may rest on it."""
        return self in (ReplayOutcome.VALID, ReplayOutcome.STOPPED_EARLY)


class TrialState(StrEnum):
    """Where a trial stands; every state but RUNNING is final."""

    RUNNING = "running"
    MEASURED = "measured"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Reason(StrEnum):
    """Why a launch failed."""

    INVALID_SETTING = "invalid_setting"
    UNSUPPORTED = "unsupported"
    MODEL_UNAVAILABLE = "model_unavailable"
    OOM_LOAD = "oom_load"
    OOM_PROFILING = "oom_profiling"
    OOM_GRAPH_CAPTURE = "oom_graph_capture"
    OOM_SAMPLER = "oom_sampler"
    OOM_UNDER_LOAD = "oom_under_load"
    KV_CACHE_TOO_SMALL = "kv_cache_too_small"
    MEMORY_TAKEN = "memory_taken"
    PORT_TAKEN = "port_taken"
    START_STALLED = "start_stalled"
    START_TOO_SLOW = "start_too_slow"
    DIED = "died"
    CRASHED_UNDER_LOAD = "crashed_under_load"
    HUNG = "hung"
    WRONG_SERVER = "wrong_server"
    NOT_RELEASED = "not_released"
    DRIVER_FAULT = "driver_fault"
    UNCLASSIFIED = "unclassified"


#: The setting itself cannot run here: the search learns from these. All others are our fault or
#: the machine's, say nothing about the setting, and are not told to the sampler.
_SETTINGS_OWN_FAULT = frozenset(
    {
        Reason.INVALID_SETTING,
        Reason.UNSUPPORTED,
        Reason.OOM_LOAD,
        Reason.OOM_PROFILING,
        Reason.OOM_GRAPH_CAPTURE,
        Reason.OOM_SAMPLER,
        Reason.OOM_UNDER_LOAD,
        Reason.KV_CACHE_TOO_SMALL,
        Reason.START_TOO_SLOW,
        Reason.DIED,
        Reason.CRASHED_UNDER_LOAD,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a launch did not serve, with the evidence."""

    reason: Reason
    #: one line for a person
    message: str
    #: where it happened: config, load, profiling, kv_cache, graph_capture, sampler, ready, load
    stage: str
    #: the log lines that show it, at most a screenful
    excerpt: str = ""
    #: how far off it was where the log tells (needed / available - 1), else None
    shortfall: float | None = None

    @property
    def state(self) -> TrialState:
        """INFEASIBLE when the setting is to blame, FAILED otherwise."""
        blame = self.reason in _SETTINGS_OWN_FAULT
        return TrialState.INFEASIBLE if blame else TrialState.FAILED
