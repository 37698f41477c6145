"""The exact distributions of one replay, per metric and per block of time.

They hold every sample, so any later limit or percentile is judged exactly as from the traces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from advisor.measure.definitions import Float64, request_of_event, samples
from advisor.terms.target import Metric
from advisor.terms.traces import MISSING, Int64, Traces

#: Time slices per window. In simulated queues (windows of 100 to 1,000 requests, bursts, stalls,
#: load up to near saturation) 10 to 12 were too short: waits reached over several of them and the
#: bounds were too narrow. 2 or 3 covered no better than 6 and decided less often.
BLOCKS_PER_WINDOW = 6


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """k samples of one metric in B blocks."""

    #: float64[k], ascending inside each block, ns, +inf for what never came; errors: 0 or 1
    values: Float64
    #: int32[k], which counted request each sample came from
    request: NDArray[np.int32]
    #: int64[B+1], block b is offsets[b] up to offsets[b+1]
    offsets: Int64

    def __len__(self) -> int:
        return len(self.values)

    @property
    def totals(self) -> Int64:
        """int64[B], samples per block."""
        return np.diff(self.offsets)

    def over(self, limit: float) -> Int64:
        """int64[B], samples above the limit (ns) per block."""
        blocks = [self.values[a:b] for a, b in pairwise(self.offsets)]
        within = [int(np.searchsorted(block, limit, side="right")) for block in blocks]
        return self.totals - np.array(within, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Everything that any verdict needs of one replay."""

    by_metric: dict[Metric, Curve]
    #: counted requests
    requests: int
    window_ns: int
    #: tokens whose event lies in the window, whichever request they belong to
    output_tokens: int
    #: those, and the prompts whose first token lies in the window
    total_tokens: int

    @property
    def failed(self) -> NDArray[np.bool_]:
        """bool[requests]"""
        errors = self.by_metric[Metric.ERRORS]
        failed = np.zeros(self.requests, dtype=np.bool_)
        failed[errors.request] = errors.values > 0
        return failed


def curves(traces: Traces) -> Curves:
    """Summarise one replay. Raises ValueError for an empty window or events out of order."""
    window_ns = traces.window_end_ns - traces.window_start_ns
    if window_ns <= 0:
        raise ValueError(f"traces: the counted window lasts {window_ns} ns; it must be above 0")
    output, total = _tokens_in_window(traces)
    return Curves(
        by_metric={metric: _curve(metric, traces) for metric in Metric},
        requests=int(traces.counted.sum()),
        window_ns=window_ns,
        output_tokens=output,
        total_tokens=total,
    )


def _curve(metric: Metric, traces: Traces) -> Curve:
    found = samples(metric, traces)
    block = block_of(found.moment_ns, traces.window_start_ns, traces.window_end_ns)
    order = np.lexsort((found.request, found.values, block))
    return Curve(
        values=found.values[order],
        request=found.request[order].astype(np.int32),
        offsets=np.searchsorted(block[order], np.arange(BLOCKS_PER_WINDOW + 1)).astype(np.int64),
    )


def block_of(moment_ns: Int64, start_ns: int, end_ns: int) -> Int64:
    """int64[k], which equal slice of [start, end); what lies after the end is in the last."""
    block: Int64 = (moment_ns - start_ns) * BLOCKS_PER_WINDOW // (end_ns - start_ns)
    return np.clip(block, 0, BLOCKS_PER_WINDOW - 1)


def _tokens_in_window(traces: Traces) -> tuple[int, int]:
    """(output, output + prompt) tokens; the lead-in's tokens count, the drain's do not.

    Work that began before the window and work that ends after it then balance. A prompt's length
    is the server's count, or the planned one where the server gave none.
    """
    inside = (traces.event_ns >= traces.window_start_ns) & (traces.event_ns < traces.window_end_ns)
    output = int(traces.event_tokens[inside].sum(dtype=np.int64))
    owner = request_of_event(traces)
    first = np.zeros(len(owner), dtype=np.bool_)
    first[traces.event_offsets[:-1][np.diff(traces.event_offsets) > 0]] = True
    prompt = np.where(traces.prompt_tokens == MISSING, traces.input_tokens, traces.prompt_tokens)
    return output, output + int(prompt[owner[inside & first]].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """One metric over several replays; all of them together are one sample of k."""

    parts: Sequence[Curve]
    #: float64[k], ascending
    values: Float64
    #: int64[blocks], samples per block, replay after replay
    totals: Int64
    #: int64[blocks], which replay each block belongs to
    replay: Int64

    def __len__(self) -> int:
        return len(self.values)

    @property
    def blocks(self) -> int:
        """Blocks that hold a sample."""
        return int((self.totals > 0).sum())

    def over(self, limit: float) -> Int64:
        """int64[blocks], samples above the limit (ns) per block."""
        return np.concatenate([part.over(limit) for part in self.parts])


def pool(replays: Sequence[Curves], metric: Metric) -> Pool:
    """Pool one metric over replays. Raises ValueError when there is no replay."""
    if not replays:
        raise ValueError("no replay to pool")
    parts = [replay.by_metric[metric] for replay in replays]
    totals = [part.totals for part in parts]
    return Pool(
        parts=parts,
        # stable: merges the runs that are sorted already
        values=np.sort(np.concatenate([part.values for part in parts]), kind="stable"),
        totals=np.concatenate(totals),
        replay=np.repeat(np.arange(len(parts)), [len(total) for total in totals]),
    )
