"""The exact distributions of one replay, per metric and per block of time.

They hold every sample, so any later limit or percentile is judged exactly as from the traces.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from advisor.measure.definitions import (
    Float64,
    Samples,
    is_unseen,
    request_of_event,
    samples,
)
from advisor.terms.target import Metric
from advisor.terms.traces import MISSING, Int64, Traces

#: Time slices per window. In simulated queues (windows of 100 to 1,000 requests, bursts, stalls,
#: load up to near saturation) 10 to 12 were too short: waits reached over several of them and the
#: bounds were too narrow. 2 or 3 covered no better than 6 and decided less often.
BLOCKS_PER_WINDOW = 6
#: These are one curve while every event carries one token.
GAPS = (Metric.ITL, Metric.TOKEN_ITL)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """k samples of one metric in B blocks; u values, as equal samples of a block are held once.

    A step that serves many streams gives each of them the same gap, so u is often far below k.
    """

    #: float64[u], ascending and distinct inside each block, ns, +inf for what never came, -inf
    #: for what an early stop kept from being seen; errors: 0 or 1
    values: Float64
    #: int64[u+1], the samples of value i are starts[i] up to and not including starts[i+1]
    starts: Int64
    #: int64[B+1], the values of block b are offsets[b] up to and not including offsets[b+1]
    offsets: Int64
    #: int64[requests], samples of each counted request
    own: Int64
    #: which counted request each sample came from, the largest sample first; equal ones in order
    #: of request. Packed, since only the few samples beyond a limit are ever asked for
    owners: bytes

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def totals(self) -> Int64:
        """int64[B], samples per block."""
        return np.diff(self.starts[self.offsets])

    def over(self, limit: float) -> Int64:
        """int64[B], samples above the limit (ns) per block."""
        blocks = [(a, self.values[a:b]) for a, b in pairwise(self.offsets)]
        first = [a + np.searchsorted(values, limit, side="right") for a, values in blocks]
        return self.starts[self.offsets[1:]] - self.starts[first]

    def exceeding(self, limit: float) -> Int64:
        """int64[requests], samples above the limit (ns) of each counted request."""
        kind = owner_type(len(self.own))
        size = int(self.over(limit).sum()) * kind.itemsize
        # of 0 bytes zlib would think that all are asked for
        first = zlib.decompressobj().decompress(self.owners, size) if size else b""
        return np.bincount(np.frombuffer(first, kind), minlength=len(self.own))

    def by_request(self) -> Float64:
        """float64[requests], ns, of a metric with one sample for each request."""
        falling = np.sort(np.repeat(self.values, np.diff(self.starts)))[::-1]
        found = np.empty(len(self.own))
        found[np.frombuffer(zlib.decompress(self.owners), owner_type(len(self.own)))] = falling
        return found

    def unseen(self) -> "Curve":
        """As many samples in the same places, none of them seen."""
        totals = self.totals
        return replace(
            self,
            values=np.full(int((totals > 0).sum()), -np.inf),
            starts=np.concatenate(([0], np.cumsum(totals[totals > 0]))),
            offsets=np.concatenate(([0], np.cumsum(totals > 0))),
        )


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
    #: counted requests were given up by an early stop
    stopped: bool = False

    @property
    def failed(self) -> NDArray[np.bool_]:
        """bool[requests]"""
        return self.by_metric[Metric.ERRORS].exceeding(0) > 0

    @property
    def ended(self) -> NDArray[np.bool_]:
        """bool[requests], False where an early stop gave the request up."""
        return self.by_metric[Metric.ERRORS].exceeding(-np.inf) > 0

    def known_below(self, metric: Metric) -> float:
        """The least latency, ns, that a given-up request had waited for something still to come;
        +inf where there is none. Whether such a one lies over a longer limit is not known."""
        if not self.stopped or metric not in (Metric.TTFT, Metric.E2E):
            return math.inf  # what other metrics miss by an early stop is -inf in them
        waited, given_up = self.by_metric[Metric.E2E].by_request(), ~self.ended
        # no earlier than the stop itself: no first token came
        open_ = given_up & (self.by_metric[metric].by_request() == waited)
        return float(waited[open_].min(initial=math.inf))

    def unseen(self) -> "Curves":
        """What a replay like this one has to say before its first event."""
        by_metric = {metric: curve.unseen() for metric, curve in self.by_metric.items()}
        return replace(self, by_metric=by_metric, output_tokens=0, total_tokens=0, stopped=True)


@lru_cache(maxsize=1)
def curves(traces: Traces) -> Curves:
    """Summarise one replay; who stores it and then who judges it get the same object.

    Raises ValueError for an empty window or events out of order.
    """
    window_ns = traces.window_end_ns - traces.window_start_ns
    if window_ns <= 0:
        raise ValueError(f"traces: the counted window lasts {window_ns} ns; it must be above 0")
    output, total = _tokens_in_window(traces)
    by_metric = {metric: _curve(metric, traces) for metric in Metric if metric not in GAPS}
    by_metric[Metric.ITL] = gaps = _curve(Metric.ITL, traces)
    single = bool((traces.event_tokens == 1).all())
    by_metric[Metric.TOKEN_ITL] = gaps if single else _curve(Metric.TOKEN_ITL, traces)
    return Curves(
        by_metric=by_metric,
        requests=int(traces.counted.sum()),
        window_ns=window_ns,
        output_tokens=output,
        total_tokens=total,
        stopped=bool(is_unseen(traces)[traces.counted].any()),
    )


def _curve(metric: Metric, traces: Traces) -> Curve:
    found, requests = samples(metric, traces), int(traces.counted.sum())
    block = block_of(found.moment_ns, traces.window_start_ns, traces.window_end_ns)
    block, rising, owners = _whole(found, block) or _any(found, block)
    first = np.ones(len(rising), dtype=np.bool_)
    first[1:] = (block[1:] != block[:-1]) | (rising[1:] != rising[:-1])
    return Curve(
        values=rising[first].astype(np.float64),
        starts=np.append(np.flatnonzero(first), len(rising)),
        offsets=np.searchsorted(block[first], np.arange(BLOCKS_PER_WINDOW + 1)).astype(np.int64),
        own=np.bincount(found.request, minlength=requests),
        owners=zlib.compress(owners.astype(owner_type(requests)).tobytes(), 1),
    )


#: int64[k] block and float64 or int64[k] value of each sample, by block and then by value; and the
#: request of each, by value from the largest, equal ones by request
_InOrder = tuple[Int64, NDArray[np.float64] | Int64, Int64]
#: Bits of a request, so that the value of its sample fits into the same 63.
_REQUEST_BITS = 20
_WHOLE_BITS = 42


def _whole(found: Samples, block: Int64) -> _InOrder | None:
    """Of whole nanoseconds, as gaps are: two plain sorts of one key each, several times as fast.
    None where a value is not finite, or too large for that."""
    values = found.values
    if not len(values) or values.min() < 0 or values.max() >= 1 << _WHOLE_BITS:
        return None
    whole = values.astype(np.int64)
    if found.request.max() >> _REQUEST_BITS or (whole != values).any():
        return None
    most = (1 << _WHOLE_BITS) - 1
    by_block = np.sort((block << _WHOLE_BITS) | whole)
    largest_first = np.sort(((most - whole) << _REQUEST_BITS) | found.request)
    requests = largest_first & ((1 << _REQUEST_BITS) - 1)
    return by_block >> _WHOLE_BITS, by_block & most, requests


def _any(found: Samples, block: Int64) -> _InOrder:
    order = np.lexsort((found.values, block))
    owners = found.request[np.lexsort((found.request, -found.values))]
    return block[order], found.values[order], owners


def owner_type(requests: int) -> np.dtype[np.unsignedinteger]:
    """The smaller of two widths: there is one for every sample."""
    return np.dtype("<u2" if requests <= 1 << 16 else "<u4")


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
    #: float64[u], ascending, ns
    values: Float64
    #: int64[u+1], the samples of value i are starts[i] up to and not including starts[i+1]
    starts: Int64
    #: int64[blocks], samples per block, replay after replay
    totals: Int64
    #: int64[blocks], which replay each block belongs to
    replay: Int64
    #: ns, see `Curves.known_below`: how much lies over a longer limit is not known
    known_below: float = math.inf

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def blocks(self) -> int:
        """Blocks that hold a sample."""
        return int((self.totals > 0).sum())

    @property
    def unseen(self) -> int:
        """Samples that an early stop kept from being seen: the first ones."""
        return int(self.starts[np.searchsorted(self.values, -np.inf, side="right")])

    def at(self, rank: int) -> float:
        """The sample of this 0-based rank, ns."""
        return float(self.values[np.searchsorted(self.starts, rank, side="right") - 1])

    def share_over(self, limit: float) -> float:
        """Of all samples, above the limit (ns)."""
        within = int(self.starts[np.searchsorted(self.values, limit, side="right")])
        return (len(self) - within) / len(self)

    def over(self, limit: float) -> Int64:
        """int64[blocks], samples above the limit (ns) per block."""
        return np.concatenate([part.over(limit) for part in self.parts])


def pool(replays: Sequence[Curves], metric: Metric) -> Pool:
    """Pool one metric over replays. Raises ValueError when there is no replay."""
    if not replays:
        raise ValueError("no replay to pool")
    parts = [replay.by_metric[metric] for replay in replays]
    totals = [part.totals for part in parts]
    values = np.concatenate([part.values for part in parts])
    # stable: merges the runs that are sorted already
    order = np.argsort(values, kind="stable")
    counts = np.concatenate([np.diff(part.starts) for part in parts])[order]
    return Pool(
        parts=parts,
        values=values[order],
        starts=np.concatenate(([0], np.cumsum(counts))),
        totals=np.concatenate(totals),
        replay=np.repeat(np.arange(len(parts)), [len(total) for total in totals]),
        known_below=min(replay.known_below(metric) for replay in replays),
    )


def pool_all(replays: Sequence[Curves]) -> dict[Metric, Pool]:
    """Every metric pooled, each once. Raises ValueError when there is no replay."""
    pools = {metric: pool(replays, metric) for metric in Metric if metric not in GAPS}
    pools[Metric.ITL] = gaps = pool(replays, Metric.ITL)
    single = all(r.by_metric[Metric.TOKEN_ITL] is r.by_metric[Metric.ITL] for r in replays)
    pools[Metric.TOKEN_ITL] = gaps if single else pool(replays, Metric.TOKEN_ITL)
    return pools
