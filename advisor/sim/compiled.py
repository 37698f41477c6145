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
    )


def warm() -> None:
    """Compile, or load what was compiled before, so that the first replay does not wait."""
    column = np.ones(1, dtype=np.int64)
    offsets, no_ids = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64)
    load = Load(0 * column, column, column, column > 0, offsets, no_ids, 0, 16)
    cost = CostModel((0,), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0)
    play(load, Served.of(load, 2, 0), Limits(1, 1, 16, 2), cost)


def _memory(load: Load, served: Served, limits: Limits, cost: CostModel) -> Int64:
    """Lay out `m`: what is not given here is 0."""
    columns = _columns(load, served, limits, cost)
    lengths = [each if isinstance(each, int) else len(each) for each in columns.values()]
    starts = at.HEADER + np.cumsum(lengths) - lengths
    memory = np.zeros(at.HEADER + sum(lengths), dtype=np.int64)
    for (name, column), start in zip(columns.items(), starts.tolist(), strict=True):
        memory[name] = start
        if not isinstance(column, int):
            memory[start : start + len(column)] = column
    memory[at.BUDGET : at.COST] = (
        limits.max_num_batched_tokens,
        limits.max_num_seqs,
        limits.block_size,
        limits.num_blocks - 1,
        limits.enable_prefix_caching,
        limits.enable_chunked_prefill,
        limits.long_prefill_token_threshold,
        load.block_tokens,
        len(served.rows),
        len(cost.weights_fs),
        len(cost.factors),
    )
    memory[at.COST : at.COST_END] = cost.as_integers()
    memory[at.BLANK] = limits.num_blocks - 1
    return memory


def _columns(
    load: Load, served: Served, limits: Limits, cost: CostModel
) -> dict[int, Int64 | int]:
    """Place of each column -> what it holds at first, or how long it is."""
    rows, size, num_blocks = served.rows, limits.block_size, limits.num_blocks
    num, prompt, output = len(rows), load.input_length[rows], load.output_length[rows]
    id_start, id_end = load.id_offsets[:-1][rows], load.id_offsets[1:][rows]
    # The most blocks that each can hold; each of them can come to have a key.
    most = -(-(prompt + output) // size)
    table = _starts(most)
    blocks, keys_of_ids = int(most.sum()), load.num_ids * -(-load.block_tokens // size)
    return {
        at.ARRIVAL: served.arrival_ns,
        at.PROMPT: prompt,
        at.OUTPUT: output,
        at.ID_START: id_start,
        at.SHARED: np.minimum(prompt // size, (id_end - id_start) * load.block_tokens // size),
        at.OWN: table + keys_of_ids,
        at.TABLE: table,
        at.EVENT: _starts(output),
        at.TOKENS: prompt,
        **dict.fromkeys((at.COMPUTED, at.ROOM, at.HELD, at.EMITTED, at.PREEMPTED), num),
        at.KEY: np.full(num_blocks, -1, dtype=np.int64),
        **dict.fromkeys((at.REFERENCES, at.OLDER, at.NEWER), num_blocks),
        **dict.fromkeys((at.NEXT_COPY, at.LAST_COPY), num_blocks),
        at.BLANKS: np.arange(num_blocks - 1, 0, -1, dtype=np.int64),
        **dict.fromkeys((at.SERVING, at.LATEST), keys_of_ids + blocks),
        at.IDS: load.ids,
        at.BLOCKS: blocks,
        at.EVENTS: int(output.sum()),
        at.QUEUE: limits.max_num_seqs,
        # Only what was admitted can be preempted, and it is in one queue alone.
        at.REQUEUED: num,
        at.EMITTING: cost.depth * limits.max_num_seqs,
        **dict.fromkeys((at.NUM_EMITTING, at.ENDS), cost.depth),
        at.WEIGHTS_FS: np.array(cost.weights_fs, dtype=np.int64),
        at.FACTORS: np.array(cost.factors, dtype=np.int64),
    }


def _starts(lengths: Int64) -> Int64:
    """Where each part begins when they stand one after the other."""
    starts: Int64 = np.cumsum(lengths) - lengths
    return starts
