"""What the steps of a replay left behind, one row a step."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Columns over the steps, int64, in order of time; the order of `kernel_state`'s log."""

    #: after the start of the replay
    step_end_ns: Int64
    #: requests running in, and waiting at, the step
    running: Int64
    waiting: Int64
    #: blocks held during the step
    used_blocks: Int64
    #: requests that compute something, and the tokens they compute
    sequences: Int64
    tokens: Int64
    #: length of every context after the step, summed
    context_tokens: Int64
    #: (token, context) pairs of requests that compute more than one token, and their number
    prefill_pairs: Int64
    prefills: Int64
    #: requests without an output token yet, and the tokens computed for them
    prompt_requests: Int64
    prompt_tokens: Int64
    #: the step's own duration, without what the host does between steps
    busy_ns: Int64
    #: blocks that can be held at most
    num_usable_blocks: int

    def __len__(self) -> int:
        return len(self.step_end_ns)

    @classmethod
    def of(cls, log: Int64, num_usable_blocks: int) -> "Timeline":
        """From int64[steps, columns]."""
        names = [each.name for each in fields(cls)]
        columns: dict[str, Int64] = dict(zip(names, np.ascontiguousarray(log.T), strict=False))
        return cls(**columns, num_usable_blocks=num_usable_blocks)

    @property
    def kv_cache_usage(self) -> NDArray[np.float64]:
        """Share of the pool in use, 0..1."""
        return self.used_blocks / self.num_usable_blocks
