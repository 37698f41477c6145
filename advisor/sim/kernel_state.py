"""What the compiled form works on: one flat int64 array `m`, and names for places in it.

A scalar stands at `m[NAME]`; row i of a column at `m[m[NAME] + i]`, for at `m[NAME]` stands where
the column begins. One array, because handing many to every helper costs more than the helpers.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_F = TypeVar("_F", bound=Callable[..., Any])

# The step being scheduled, as `Timeline` has it: these first places are copied into the log.
(STEP_END, STEP_RUNNING, STEP_WAITING, STEP_USED, STEP_SEQUENCES, STEP_TOKENS, STEP_CONTEXT,
 STEP_PAIRS, STEP_PREFILLS, STEP_PROMPTS, STEP_PROMPT_TOKENS, STEP_BUSY,
 LOG_WIDTH) = range(13)  # fmt: skip

# Limits, and the cost in the order of `CostModel.as_integers`.
(BUDGET, SEQS, SIZE, USABLE, CACHING, CHUNKED, THRESHOLD, BLOCK_TOKENS, NUM_REQUESTS, NUM_WEIGHTS,
 NUM_FACTORS, COST) = range(12, 24)  # fmt: skip
(TOKEN_FS, CONTEXT_FS, PAIR_FS, PREFILL_FS, FIXED_FS, SEQUENCE_FS, REDUCE_FS, LAUNCH_FS, GRAPH,
 HOST_FS, HOST_SEQUENCE_FS, DEPTH, EMIT_NS, COST_END) = range(COST, COST + 14)  # fmt: skip

# Counters: free blocks without and with content; requests running, preempted and waiting,
# admitted for the first time, arrived; what vLLM exports.
(BLANK, IDLE, NUM_RUNNING, NUM_PREEMPTED, ADMITTED, JOINED, PREEMPTIONS, QUERIES, HITS,
 COUNTERS_END) = range(COST_END, COST_END + 10)  # fmt: skip

# Columns of requests, in order of arrival. The content of block j of the first SHARED has a key by
# its id, that of others the key OWN + j. TABLE and EVENT: where its part of BLOCKS and of EVENTS
# begins. ROOM: tokens that the last block it holds can still take.
(ARRIVAL, PROMPT, OUTPUT, ID_START, SHARED, OWN, TABLE, EVENT, TOKENS, COMPUTED, ROOM, HELD,
 EMITTED, PREEMPTED, REQUESTS_END) = range(COUNTERS_END, COUNTERS_END + 15)  # fmt: skip

# Columns of blocks; 0 is the null block and stands for none. Idle ones are linked in a ring, from
# the one longest idle (NEWER of 0) to the latest (OLDER of 0); blocks with one key from the one
# that serves to the latest copy. BLANKS is a stack.
(REFERENCES, KEY, OLDER, NEWER, NEXT_COPY, LAST_COPY, BLANKS,
 BLOCKS_END) = range(REQUESTS_END, REQUESTS_END + 8)  # fmt: skip

# By key: the block that serves, and its latest copy. Queues: running in order of admission;
# preempted, the next to be admitted last. By batch in flight: who gets a token from it (SEQS
# places each), how many, when it ends.
(SERVING, LATEST, IDS, BLOCKS, EVENTS, QUEUE, REQUEUED, EMITTING, NUM_EMITTING, ENDS, WEIGHTS_FS,
 FACTORS, HEADER) = range(BLOCKS_END, BLOCKS_END + 13)  # fmt: skip


def compiled(function: _F) -> _F:
    """A helper: compiled into whatever calls it, and not cached by itself."""
    return cast(_F, njit(error_model="numpy")(function))
