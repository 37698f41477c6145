"""How a replay, a launch or a trial can end: the same names everywhere."""

from dataclasses import dataclass
from enum import StrEnum

from advisor.terms.reasons import RULES, Effect, Rule
from advisor.terms.reasons import Reason as Reason


class ReplayOutcome(StrEnum):
    """What a replay's numbers are worth."""

    VALID = "valid"
    CLIENT_BOUND = "client_bound"
    MISMATCH = "mismatch"
    CONTAMINATED = "contaminated"
    NOISY = "noisy"
    UNDERPOWERED = "underpowered"
    STOPPED_EARLY = "stopped_early"
    #: the longest requests at once, played to see the server survive: nothing is measured by it
    SOAK = "soak"

    @property
    def is_scored(self) -> bool:
        """Whether a verdict may rest on it."""
        return self in (ReplayOutcome.VALID, ReplayOutcome.STOPPED_EARLY)


class StopReason(StrEnum):
    """Why a replay was ended before its requests were."""

    #: a target is missed, whatever is still to come
    OUT_OF_REACH = "out_of_reach"
    #: the server falls further behind as time goes on
    NOT_STATIONARY = "not_stationary"


class TrialState(StrEnum):
    """Where a trial stands; every state but RUNNING is final."""

    RUNNING = "running"
    MEASURED = "measured"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


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
    #: the amounts behind it, in the log's own unit (GiB, or a flag's); None where it tells none
    needed: float | None = None
    available: float | None = None
    #: the longest max_model_len that the log says would fit, in tokens
    fits_tokens: int | None = None

    @property
    def rule(self) -> Rule:
        """What follows from the reason."""
        return RULES[self.reason]

    @property
    def state(self) -> TrialState:
        """INFEASIBLE when the setting is to blame, FAILED otherwise."""
        blame = self.rule.effect is Effect.INFEASIBLE
        return TrialState.INFEASIBLE if blame else TrialState.FAILED
