"""The requests of one replay in columns, as a simulator takes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import Int64


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

    def __len__(self) -> int:
        return len(self.at_ns)

    @classmethod
    def of(cls, requests: Sequence[PlannedRequest], block_tokens: int) -> "Load":
        """Requests as columns, their ids numbered afresh."""
        counts = [len(each.block_ids) for each in requests]
        known: dict[int, int] = {}
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
        )
