"""What the compiled form works on: one flat int64 array `m`, and names for places in it.

A scalar stands at `m[NAME]`. Requests and blocks are records, known by where they begin: field
NAME of request `i` stands at `m[i + NAME]`. One array, because handing many to every helper costs
more than the helpers do.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from advisor.terms.traces import Int64

_F = TypeVar("_F", bound=Callable[..., Any])

# The step being scheduled, as `Timeline` has it: these first places are copied into the log.
(STEP_END, STEP_RUNNING, STEP_WAITING, STEP_USED, STEP_SEQUENCES, STEP_TOKENS, STEP_CONTEXT,
 STEP_PAIRS, STEP_PREFILLS, STEP_PROMPTS, STEP_PROMPT_TOKENS, STEP_BUSY,
 LOG_WIDTH) = range(13)  # fmt: skip

# Limits, and the cost in the order of `CostModel.as_integers`.
(BUDGET, SEQS, SIZE, USABLE, CACHING, CHUNKED, THRESHOLD, BLOCK_TOKENS, NUM_WEIGHTS, NUM_FACTORS,
 COST) = range(12, 23)  # fmt: skip
(TOKEN_FS, CONTEXT_FS, PAIR_FS, PREFILL_FS, FIXED_FS, SEQUENCE_FS, REDUCE_FS, LAUNCH_FS, GRAPH,
 HOST_FS, HOST_SEQUENCE_FS, DEPTH, EMIT_NS, COST_END) = range(COST, COST + 14)  # fmt: skip

# Counters: free blocks without and with content; requests running, preempted and waiting; what
# vLLM exports, QUEUED_NS over all requests up to their first admission. The moment of scheduling.
# Places in ARRIVED: the next request to be admitted for the first time, and where the next to
# arrive goes. Where PENDING ends.
(BLANK, IDLE, NUM_RUNNING, NUM_PREEMPTED, PREEMPTIONS, QUERIES, HITS, QUEUED_NS, CLOCK, ADMITTED,
 JOINED, PENDING_END) = range(COST_END, COST_END + 12)  # fmt: skip

# Where parts of `m` begin: records of requests; ids; for each key of an id the block that serves
# and its latest copy; block tables; times of tokens. Requests in order of arrival. Stacks: those
# whose arrival is known and to come, the next one last; blank blocks; preempted requests, the next
# to be admitted last. Running requests in order of admission. By batch in flight: who gets a token
# from it (SEQS places each), how many, its end.
(REQUESTS, IDS, KEYS, TABLES, EVENTS, ARRIVED, PENDING, BLANKS, PREEMPTED, QUEUE, EMITTING,
 NUM_EMITTING, ENDS, WEIGHTS_FS, FACTORS,
 NULL) = range(PENDING_END + 1, PENDING_END + 17)  # fmt: skip

# A block. Idle ones are linked in a ring over NULL, which also stands for none: from the one
# longest idle (its NEWER) to the latest (its OLDER). Blocks with one key are linked from the one
# that serves to the latest copy. KEY is where its entry in KEYS stands, a number at or beyond
# OWN_KEYS when nobody but its request can find it, or -1.
(REFERENCES, KEY, OLDER, NEWER, NEXT_COPY, LAST_COPY, BLOCK_WIDTH) = range(7)
OWN_KEYS = 1 << 40
HEADER = NULL + BLOCK_WIDTH

# A request. COMPUTED tokens are in the cache, OUTSTANDING ones are not and could be computed: 0
# once its last token is on its way. LEFT: output tokens not on their way yet. ROOM: what its last
# block can still take. FRESH: 1 until its first token is on its way. Content of its first SHARED
# blocks has keys by its ids, of block j behind them OWN + j. TABLE and TABLE_END hold its blocks;
# EVENT is where its next token's time goes, EVENT_END where they end. FOLLOWER is the turn that
# waits for its answer, or 0: until then that one's ARRIVAL counts from the answer's end.
(ARRIVAL, OUTSTANDING, COMPUTED, LEFT, ROOM, FRESH, EVENT, EVENT_END, TABLE, TABLE_END, SHARED,
 ID_START, OWN, TIMES_PREEMPTED, FOLLOWER, REQUEST_WIDTH) = range(16)  # fmt: skip


def compiled(function: _F) -> _F:
    """A helper: compiled into whatever calls it, and not cached by itself."""
    return cast(_F, njit(error_model="numpy")(function))


@compiled
def logged(m: Int64, log: Int64, step: int) -> Int64:
    """The log with the step just started, a longer one when it was full."""
    if step == len(log):
        log = np.concatenate((log, np.empty_like(log)))
    for place in range(LOG_WIDTH):
        log[step, place] = m[place]
    return log
