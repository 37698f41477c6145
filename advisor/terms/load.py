"""The requests of one replay in columns, as a simulator takes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Which requests wait for the answer to another: the turn before in one conversation."""

    #: int64[n], the row that each waits for, always an earlier one; -1: it comes at its time
    before: Int64
    #: int64[n], from the end of that answer to this turn
    pause_ns: Int64

    @classmethod
    def of(cls, session: Int64, pause_ns: Int64) -> "Turns | None":
        """From int64[n] numbers of sessions, and pauses, -1 for none; None if nobody waits.

        A turn with a pause waits for its session's row before it. The first one waits for none.
        """
        order = np.argsort(session, kind="stable")
        follows = session[order[1:]] == session[order[:-1]]
        before = np.full(len(session), -1, dtype=np.int64)
        before[order[1:][follows]] = order[:-1][follows]
        before[pause_ns < 0] = -1
        return cls(before, np.where(before < 0, 0, pause_ns)) if (before >= 0).any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """n planned requests, in any order; times in ns after the start of the replay."""

    #: int64[n]
    at_ns: Int64
    #: int64[n], tokens, >= 1
    input_length: Int64
    output_length: Int64
    #: bool[n], False in the lead-in
    counted: NDArray[np.bool_]
    #: int64[n+1]: the prefix ids of request i are ids[id_offsets[i]] up to ids[id_offsets[i+1]]
    id_offsets: Int64
    #: int64[m], 0 .. num_ids - 1; each names a prompt up to the end of its part of
    #: `block_tokens`, so equal ids mean an equal prefix. None: the prompt shares nothing
    ids: Int64
    num_ids: int
    block_tokens: int
    #: None: every request comes at its time
    turns: Turns | None = None

    def __len__(self) -> int:
        return len(self.at_ns)

    @classmethod
    def of(cls, requests: Sequence[PlannedRequest], block_tokens: int) -> "Load":
        """Requests as columns, their ids numbered afresh."""
        counts = [len(each.block_ids) for each in requests]
        known: dict[int, int] = {}
        sessions: dict[object, int] = {}
        ids = [known.setdefault(id_, len(known)) for each in requests for id_ in each.block_ids]

        def column(values: list[int]) -> Int64:
            return np.array(values, dtype=np.int64)

        return cls(
            at_ns=column([each.at_ns for each in requests]),
            input_length=column([each.input_length for each in requests]),
            output_length=column([each.output_length for each in requests]),
            counted=np.array([each.counted for each in requests], dtype=np.bool_),
            id_offsets=np.concatenate((column([0]), np.cumsum(column(counts)))),
            ids=column(ids),
            num_ids=len(known),
            block_tokens=block_tokens,
            turns=Turns.of(
                # Rows without a session are one each.
                column(
                    [sessions.setdefault(r.session_id or i, i) for i, r in enumerate(requests)]
                ),
                column([-1 if r.pause_ns is None else r.pause_ns for r in requests]),
            ),
        )
