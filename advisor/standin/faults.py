"""What the stand-in can do wrong on demand: one table, and how `--sim-fault` names it.

Each fault has the reason that a supervisor must find for it. Where a server serves all the same,
there is none: then its trial is measured, and what was wrong shows in what was measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from advisor.sim.flagvalues import MODELLED
from advisor.terms.errors import InputError
from advisor.terms.outcome import Reason


class Fault(StrEnum):
    """The names that `--sim-fault` takes."""

    # at start: the first ones are refusals, whose words stand in `refusals`
    INVALID_SETTING = "invalid_setting"
    REMOVED_FLAG = "removed_flag"
    UNSUPPORTED = "unsupported"
    MODEL_UNAVAILABLE = "model_unavailable"
    OOM_LOAD = "oom_load"
    OOM_PROFILING = "oom_profiling"
    OOM_GRAPH_CAPTURE = "oom_graph_capture"
    OOM_SAMPLER = "oom_sampler"
    KV_CACHE_TOO_SMALL = "kv_cache_too_small"
    MEMORY_TAKEN = "memory_taken"
    MEMORY_RACE = "memory_race"
    PORT_TAKEN = "port_taken"
    DRIVER_FAULT = "driver_fault"
    UNCLASSIFIED = "unclassified"
    DIED = "died"
    START_STALLED = "start_stalled"
    START_TOO_SLOW = "start_too_slow"
    WRONG_SERVER = "wrong_server"
    # under load
    OOM_UNDER_LOAD = "oom_under_load"
    CRASH = "crash"
    CRASH_AT_REST = "crash_at_rest"
    DEAD_ENGINE = "dead_engine"
    HANG = "hang"
    COLD = "cold"
    SLOWING = "slowing"
    # in the answers
    ERROR_EVENT = "error_event"
    SHORT_ANSWER = "short_answer"
    RESET = "reset"
    OVERLOADED = "overloaded"
    GARBAGE_SSE = "garbage_sse"
    SPLIT_SSE = "split_sse"
    MISSING_DONE = "missing_done"
    # in what it tells of itself
    SLOW_HEALTH = "slow_health"
    KNOB_IGNORED = "knob_ignored"
    NO_METRICS = "no_metrics"
    WARM_CACHE = "warm_cache"
    JIT = "jit"
    # at its end
    REFUSES_TO_DIE = "refuses_to_die"
    OWN_SESSION = "own_session"
    NOT_RELEASED = "not_released"


class Takes(StrEnum):
    """What may follow the name, worded for a person."""

    NOTHING = "nothing"
    COUNT = "a whole number of at least 1"
    SECONDS = "a number of seconds above 0"
    FLAG = "FLAG=VALUE with a flag that the simulator models"


@dataclass(frozen=True, slots=True)
class Entry:
    """One fault, for a reader and for the tests of those who have to live with it."""

    #: what the stand-in does
    does: str
    #: what a launch on it ends with; None: it serves, and its trial is measured
    reason: Reason | None = None
    takes: Takes = Takes.NOTHING
    #: of what it takes, when only the name is given
    default: str | None = None


#: Requests served before a fault under load. A warm-up has fewer, so the load is under way.
_LATER = "40"
#: Within what any warm-up sends.
_FIRST = "8"
#: A fault in the answers hits every third: enough for any target on errors, and some stay good.
_SOME = "3"

TABLE: Mapping[Fault, Entry] = {
    Fault.INVALID_SETTING: Entry("refuses a flag's value", Reason.INVALID_SETTING),
    Fault.REMOVED_FLAG: Entry("knows a flag no more", Reason.INVALID_SETTING),
    Fault.UNSUPPORTED: Entry("cannot do a quantisation on this GPU", Reason.UNSUPPORTED),
    Fault.MODEL_UNAVAILABLE: Entry("finds no weights", Reason.MODEL_UNAVAILABLE),
    Fault.OOM_LOAD: Entry("out of memory while loading", Reason.OOM_LOAD),
    Fault.OOM_PROFILING: Entry("out of memory in profiling", Reason.OOM_PROFILING),
    Fault.OOM_GRAPH_CAPTURE: Entry(
        "out of memory in graph capture, after a clean profiling", Reason.OOM_GRAPH_CAPTURE
    ),
    Fault.OOM_SAMPLER: Entry("out of memory in the sampler's warm-up", Reason.OOM_SAMPLER),
    Fault.KV_CACHE_TOO_SMALL: Entry(
        "has no room for the longest request", Reason.KV_CACHE_TOO_SMALL
    ),
    Fault.MEMORY_TAKEN: Entry("finds another's memory on the device", Reason.MEMORY_TAKEN),
    Fault.MEMORY_RACE: Entry("sees memory come back while it profiles", Reason.MEMORY_TAKEN),
    Fault.PORT_TAKEN: Entry("finds its port taken", Reason.PORT_TAKEN),
    Fault.DRIVER_FAULT: Entry("finds no usable device", Reason.DRIVER_FAULT),
    Fault.UNCLASSIFIED: Entry("fails with words that nobody knows", Reason.UNCLASSIFIED),
    Fault.DIED: Entry("ends before it is ready and says nothing", Reason.DIED),
    Fault.START_STALLED: Entry("starts for ever, silent and idle", Reason.START_STALLED),
    Fault.START_TOO_SLOW: Entry("starts for ever, and logs progress", Reason.START_TOO_SLOW),
    Fault.WRONG_SERVER: Entry("serves under another model's name", Reason.WRONG_SERVER),
    Fault.OOM_UNDER_LOAD: Entry(
        "out of memory after so many requests", Reason.OOM_UNDER_LOAD, Takes.COUNT, _LATER
    ),
    Fault.CRASH: Entry(
        "killed after so many requests", Reason.CRASHED_UNDER_LOAD, Takes.COUNT, _LATER
    ),
    Fault.CRASH_AT_REST: Entry(
        "killed by the first question for /metrics after so many requests",
        Reason.CRASHED_UNDER_LOAD,
        Takes.COUNT,
        _LATER,
    ),
    Fault.DEAD_ENGINE: Entry(
        "loses its engine after so many requests; /health goes on to answer 200",
        Reason.CRASHED_UNDER_LOAD,
        Takes.COUNT,
        _LATER,
    ),
    Fault.HANG: Entry(
        "gives no token more after so many requests, and accepts them still",
        Reason.HUNG,
        Takes.COUNT,
        _LATER,
    ),
    Fault.COLD: Entry(
        "takes twenty times as long for its first so many requests", None, Takes.COUNT, _FIRST
    ),
    Fault.SLOWING: Entry("is slower with every request"),
    Fault.ERROR_EVENT: Entry(
        "an error event in mid-stream, in every so-manieth answer", None, Takes.COUNT, _SOME
    ),
    Fault.SHORT_ANSWER: Entry(
        "half of the tokens, in every so-manieth answer", None, Takes.COUNT, _SOME
    ),
    Fault.RESET: Entry(
        "resets the connection in mid-stream, in every so-manieth answer",
        None,
        Takes.COUNT,
        _SOME,
    ),
    Fault.OVERLOADED: Entry("answers every so-manieth with 503", None, Takes.COUNT, _SOME),
    Fault.GARBAGE_SSE: Entry(
        "an event that is no JSON, in every so-manieth answer", None, Takes.COUNT, _SOME
    ),
    Fault.SPLIT_SSE: Entry("events in pieces of one byte"),
    Fault.MISSING_DONE: Entry("no [DONE] at the end of an answer"),
    Fault.SLOW_HEALTH: Entry("/health takes so long once it serves", None, Takes.SECONDS, "30"),
    Fault.KNOB_IGNORED: Entry(
        "tells and runs another value than asked", None, Takes.FLAG, "max_num_seqs=7"
    ),
    Fault.NO_METRICS: Entry("answers /metrics with 404"),
    Fault.WARM_CACHE: Entry("counts every prompt token as a prefix-cache hit"),
    Fault.JIT: Entry("compiles a kernel after so many requests", None, Takes.COUNT, _LATER),
    Fault.REFUSES_TO_DIE: Entry("ignores SIGTERM"),
    Fault.OWN_SESSION: Entry("has a child in a session of its own that ignores SIGTERM"),
    Fault.NOT_RELEASED: Entry("leaves its memory taken behind its end", Reason.NOT_RELEASED),
}

#: For a search over faults: the value that is none.
NONE = "none"


@dataclass(frozen=True, slots=True)
class Faults:
    """What one launch does wrong."""

    arguments: Mapping[Fault, str | None] = field(default_factory=dict)

    def __contains__(self, fault: Fault) -> bool:
        return fault in self.arguments

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.arguments)

    def count(self, fault: Fault) -> int | None:
        """The number given to a fault; None when the launch does not have it."""
        given = self.arguments.get(fault)
        return None if given is None else int(given)

    def seconds(self, fault: Fault) -> float:
        """The time given to a fault, 0 when the launch does not have it."""
        return float(self.arguments.get(fault) or 0.0)

    def flag(self, fault: Fault) -> tuple[str, str] | None:
        """The flag given to a fault and its value; None when the launch does not have it."""
        given = self.arguments.get(fault)
        if given is None:
            return None
        name, _, value = given.partition("=")
        return name, value


def parse_faults(words: str) -> dict[Fault, str | None]:
    """Read `NAME[:ARG][,NAME[:ARG]…]`. Raises InputError that names what is accepted."""
    found: dict[Fault, str | None] = {}
    for word in words.split(","):
        name, colon, given = word.strip().partition(":")
        if name == NONE:
            if colon:
                raise InputError(f"fault {NONE}: {given!r} is not {Takes.NOTHING}")
            continue
        if name not in tuple(Fault):
            raise InputError(f"fault {name!r} is unknown; one of {NONE}, {', '.join(Fault)}")
        fault = Fault(name)
        found[fault] = _argument(fault, given if colon else None)
    return found


def _argument(fault: Fault, given: str | None) -> str | None:
    entry = TABLE[fault]
    value = entry.default if given is None else given
    if value is not None and not _fits(entry.takes, value):
        raise InputError(f"fault {fault}: {value!r} is not {entry.takes}")
    return value


def _fits(takes: Takes, value: str) -> bool:
    match takes:
        case Takes.NOTHING:
            return False
        case Takes.COUNT:
            return value.isascii() and value.isdigit() and int(value) >= 1
        case Takes.SECONDS:
            try:
                return 0 < float(value) < float("inf")
            except ValueError:
                return False
        case Takes.FLAG:
            name, equals, setting = value.partition("=")
            return bool(equals and setting) and name in MODELLED
