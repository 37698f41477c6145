"""When the server really sent what: the reference that a load generator is held against."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Sent:
    """One request; times are `time.monotonic_ns` of this machine.

    On Linux that is the clock of `time.perf_counter_ns` too, so a client on the same machine can
    subtract.
    """

    request: str
    path: str
    prompt_tokens: int
    planned_tokens: int
    received_ns: int = field(default_factory=time.monotonic_ns)
    #: when each event that carries tokens was handed to the socket
    event_ns: list[int] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    #: None while it is open, and for one that was open at the end
    ended_ns: int | None = None

    def sending(self, tokens: int) -> None:
        """An event with so many tokens goes out now."""
        self.event_ns.append(time.monotonic_ns())
        self.event_tokens.append(tokens)

    def ended(self) -> None:
        self.ended_ns = time.monotonic_ns()


def write_truth(requests: Sequence[Sent], path: Path) -> None:
    """One JSON object a line, in the order of arrival. Raises OSError."""
    path.write_text("".join(json.dumps(asdict(sent)) + "\n" for sent in requests))
