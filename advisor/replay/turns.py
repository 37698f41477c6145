"""Turns of a conversation: a person reads the answer before writing on."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.profile import PlannedRequest


@dataclass(frozen=True, slots=True)
class Turn:
    """A request that waits for another's end, whatever that was."""

    #: the number of the other
    before: int
    pause_ns: int


def turns_of(requests: Sequence[PlannedRequest]) -> dict[int, Turn]:
    """Which requests wait for which: a turn with a pause waits for its session's turn before it.

    The first turn that a replay plays of a session waits for nothing.
    """
    turns: dict[int, Turn] = {}
    last: dict[str, int] = {}
    for index, request in enumerate(requests):
        if request.session_id is None:
            continue
        before = last.get(request.session_id)
        if before is not None and request.pause_ns is not None:
            turns[index] = Turn(before, request.pause_ns)
        last[request.session_id] = index
    return turns
