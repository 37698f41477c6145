"""A replay in compiled form: the load laid out in one flat array, then one call."""

import numpy as np

from advisor.sim import kernel_state as at
from advisor.sim.cost import CostModel
from advisor.sim.kernel import SOURCE
from advisor.sim.kernel import play as play_memory
from advisor.sim.played import Played, Served
from advisor.sim.steps import Limits
from advisor.terms.load import Load
from advisor.terms.traces import Int64


def play(load: Load, served: Served, limits: Limits, cost: CostModel) -> Played:
    """Play to the end of the last request; equals `plain.play` to the bit."""
    memory = _memory(load, served, limits, cost)
    log = play_memory(memory, SOURCE)
    if log.shape[1] == 0:
        # What is cached was compiled from older text; so far it has changed nothing.
        play_memory.recompile()  # type: ignore[attr-defined]
        log = play_memory(memory, SOURCE)
    events, tokens = memory[at.EVENTS], int(load.output_length[served.rows].sum())
    return Played(
        log=log,
        events=memory[events : events + tokens].copy(),
        preemptions=int(memory[at.PREEMPTIONS]),
        prefix_queries=int(memory[at.QUERIES]),
        prefix_hits=int(memory[at.HITS]),
        queued_ns=int(memory[at.QUEUED_NS]),
    )


def warm() -> None:
    """Compile, or load what was compiled before, so that the first replay does not wait."""
    column = np.ones(1, dtype=np.int64)
    offsets, no_ids = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64)
    load = Load(0 * column, column, column, column > 0, offsets, no_ids, 0, 16)
    cost = CostModel((0,), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, column)
    play(load, Served.of(load, 2, 0), Limits(1, 1, 16, 2), cost)


def _memory(load: Load, served: Served, limits: Limits, cost: CostModel) -> Int64:
    """Lay out `m`: what is not given here is 0."""
    rows, num_blocks = served.rows, limits.num_blocks
    # The most blocks that each can come to hold.
    most = -(-(load.input_length[rows] + load.output_length[rows]) // limits.block_size)
    num_keys = load.num_ids * -(-load.block_tokens // limits.block_size)
    lengths = {
        at.REQUESTS: len(rows) * at.REQUEST_WIDTH,
        at.IDS: len(load.ids),
        at.KEYS: 2 * num_keys,
        at.TABLES: int(most.sum()),
        at.EVENTS: int(load.output_length[rows].sum()),
        at.ARRIVED: len(rows),
        at.PENDING: len(rows),
        at.BLANKS: num_blocks - 1,
        at.PREEMPTED: len(rows),
        at.QUEUE: limits.max_num_seqs,
        at.EMITTING: cost.depth * limits.max_num_seqs,
        at.NUM_EMITTING: cost.depth,
        at.ENDS: cost.depth,
        at.WEIGHTS_FS: len(cost.weights_fs),
        at.FACTORS: len(cost.factors),
    }
    starts = at.HEADER + np.cumsum([0, *lengths.values()])
    blocks = int(starts[-1])
    m = np.zeros(blocks + (num_blocks - 1) * at.BLOCK_WIDTH, dtype=np.int64)
    m[list(lengths)] = starts[:-1]
    m[m[at.IDS] : m[at.IDS] + len(load.ids)] = load.ids
    m[m[at.KEYS] : m[at.KEYS] + 2 * num_keys] = at.NULL
    m[m[at.WEIGHTS_FS] :][: len(cost.weights_fs)] = cost.weights_fs
    m[m[at.FACTORS] :][: len(cost.factors)] = cost.factors
    _fill_scalars(m, load, limits, cost)
    _fill_blocks(m, blocks)
    _fill_requests(m, load, served, most, limits.block_size)
    return m


def _fill_scalars(m: Int64, load: Load, limits: Limits, cost: CostModel) -> None:
    m[at.BUDGET : at.COST] = (
        limits.max_num_batched_tokens,
        limits.max_num_seqs,
        limits.block_size,
        limits.num_blocks - 1,
        limits.enable_prefix_caching,
        limits.enable_chunked_prefill,
        limits.long_prefill_token_threshold,
        load.block_tokens,
        len(cost.weights_fs),
        len(cost.factors),
    )
    m[at.COST : at.COST_END] = cost.as_integers()
    m[at.BLANK] = limits.num_blocks - 1
    m[at.ADMITTED] = m[at.JOINED] = m[at.ARRIVED]


def _fill_blocks(m: Int64, start: int) -> None:
    """All blank, the null block last in the header."""
    places = np.arange(start, len(m), at.BLOCK_WIDTH)
    m[m[at.BLANKS] :][: len(places)] = places[::-1]
    m[places + at.KEY] = -1
    m[at.NULL + at.KEY] = -1
    m[[at.NULL + at.OLDER, at.NULL + at.NEWER]] = at.NULL


def _fill_requests(m: Int64, load: Load, served: Served, most: Int64, size: int) -> None:
    rows = served.rows
    prompt, output = load.input_length[rows], load.output_length[rows]
    id_start, id_end = load.id_offsets[:-1][rows], load.id_offsets[1:][rows]
    places = m[at.REQUESTS] + at.REQUEST_WIDTH * np.arange(len(rows))
    records = m[m[at.REQUESTS] : m[at.IDS]].reshape(len(rows), at.REQUEST_WIDTH)
    table, event = _starts(most), m[at.EVENTS] + _starts(output)
    records[:, at.ARRIVAL] = served.arrival_ns
    records[:, at.OUTSTANDING] = prompt
    records[:, at.LEFT] = output
    records[:, at.FRESH] = 1
    records[:, at.EVENT] = event
    records[:, at.EVENT_END] = event + output
    records[:, at.TABLE] = records[:, at.TABLE_END] = m[at.TABLES] + table
    records[:, at.SHARED] = np.minimum(
        prompt // size, (id_end - id_start) * load.block_tokens // size
    )
    records[:, at.ID_START] = id_start
    records[:, at.OWN] = at.OWN_KEYS + table
    waits = served.before >= 0
    records[served.before[waits], at.FOLLOWER] = places[waits]
    known = places[~waits][np.argsort(served.arrival_ns[~waits], kind="stable")][::-1]
    m[m[at.PENDING] :][: len(known)] = known
    m[at.PENDING_END] = m[at.PENDING] + len(known)


def _starts(lengths: Int64) -> Int64:
    """Where each part begins when they stand one after the other."""
    starts: Int64 = np.cumsum(lengths) - lengths
    return starts
