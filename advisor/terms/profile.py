"""A recorded load, and the slices of it that replays play."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Request:
    """One row of a profile."""

    #: after the profile's first moment, in nanoseconds
    arrival_ns: int
    #: prompt length in tokens, >= 1
    input_length: int
    #: tokens generated, >= 1
    output_length: int
    #: one id per `block_tokens` of the prompt, the last may be partly filled; empty when unknown
    hash_ids: tuple[int, ...] = ()
    #: requests of one conversation share it
    session_id: str | None = None
    #: from the end of the answer to the session's turn before to this one; None: not recorded,
    #: then it comes at its arrival whatever became of the turn before
    pause_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A recorded load with its provenance."""

    name: str
    requests: tuple[Request, ...]
    #: prompt tokens per hash id
    block_tokens: int
    #: of the JSONL file's bytes
    sha256: str
    source: str
    licence: str
    #: how the file was made, for a person
    made_by: str
    #: (reason, rows) that were in the file and are not in `requests`
    dropped: tuple[tuple[str, int], ...] = ()

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last."""
        return self.requests[-1].arrival_ns - self.requests[0].arrival_ns


class WindowRole(StrEnum):
    """What a window may be used for; the search never sees a held-out one."""

    SEARCH = "search"
    HELD_OUT = "held_out"
    #: no slice of the profile: how long its longest requests, all at once, may take
    SOAK = "soak"


@dataclass(frozen=True, slots=True)
class Window:
    """A contiguous slice of a profile, half open, in the profile's own time."""

    name: str
    role: WindowRole
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Windows:
    """How a profile is split: interleaved, with a gap before each window."""

    search: tuple[Window, ...]
    held_out: tuple[Window, ...]
    #: between windows; also what the lead-in may play
    gap_ns: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What one replay shall play: nothing in it depends on the engine."""

    window: Window
    #: arrivals come this many times as fast; the counted duration stays the window's
    multiple: float
    #: makes every prompt block new to the server, however often the window was played before
    salt: int
    #: uncounted load before the window, under the same salt
    lead_in_ns: int
    #: instead of what the window recorded: so many of the profile's longest requests, all at the
    #: window's start, none of which shares a prompt; None: the window as it was recorded
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request of a replay, ready to be sent at its moment."""

    #: after the start of the replay (the lead-in comes first)
    at_ns: int
    input_length: int
    output_length: int
    #: salted ids, each names its block **and all before it**, so equal ids mean an equal prefix
    block_ids: tuple[int, ...]
    #: False in the lead-in
    counted: bool
    session_id: str | None = None
    #: sent this long after the answer to the session's turn before it has ended; `at_ns` then only
    #: orders the turns. None: sent at `at_ns`, whatever became of the turn before
    pause_ns: int | None = None
