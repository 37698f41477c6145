"""What a calibration may change about the cost of a step."""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from advisor.sim.cost import CostModel

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Constants:
    """Factors on the terms of a cost model from data sheets, and terms that it lacks."""

    #: reading the weights, matrix products, reading the KV cache, attention in prefill
    weights: float = 1.0
    token: float = 1.0
    context: float = 1.0
    pair: float = 1.0
    #: each step, each sequence in it
    step: float = 1.0
    sequence: float = 1.0
    #: launching kernels one by one, beyond the CUDA graphs
    launch: float = 1.0
    #: between two steps of a CPU server, and for each sequence there; no log of steps shows them
    host: float = 1.0
    host_sequence: float = 1.0
    #: for each request in prefill in a step, in ms
    prefill_ms: float = 0.0
    #: from the planned time to the first token, beside what the scheduler does, in ms; None: as
    #: assumed. Only client traces show it
    request_ms: float | None = None

    def apply(self, cost: CostModel) -> CostModel:
        """The same launch with these constants."""

        def scaled(term_fs: int, factor: float) -> int:
            return round(term_fs * factor)

        changed = replace(
            cost,
            weights_fs=tuple(scaled(each, self.weights) for each in cost.weights_fs),
            token_fs=scaled(cost.token_fs, self.token),
            context_fs=scaled(cost.context_fs, self.context),
            pair_fs=scaled(cost.pair_fs, self.pair),
            step_fs=scaled(cost.step_fs, self.step),
            sequence_fs=scaled(cost.sequence_fs, self.sequence),
            launch_fs=scaled(cost.launch_fs, self.launch),
            host_fs=scaled(cost.host_fs, self.host),
            host_sequence_fs=scaled(cost.host_sequence_fs, self.host_sequence),
            prefill_fs=round(self.prefill_ms * 1e12),
        )
        if self.request_ms is None:
            return changed
        ingest_ns = max(0, round(self.request_ms * 1e6) - cost.emit_ns)
        return replace(changed, ingest_ns=ingest_ns)


#: Terms of a step, which its log shows; the rest of a server's time, which stamps show; and what
#: comes before both, which only a client's stamps show.
IN_STEPS = tuple(
    each.name
    for each in fields(Constants)
    if each.name not in ("host", "host_sequence", "request_ms")
)
BETWEEN_STEPS = ("host", "host_sequence")
BEFORE_STEPS = ("request_ms",)

#: Factors are fitted as logarithms. One standard deviation of what data sheets leave open: a
#: factor of 1.65 either way. Where runs say nothing about a term it stays where it was.
_PRIOR = 0.5
#: Terms in ms: where they start, and one standard deviation around that.
_IN_MS = {"prefill_ms": (0.5, 2.0), "request_ms": (16.4, 20.0)}


@dataclass(frozen=True, slots=True)
class Free:
    """Some constants as a vector of unbounded, comparable numbers; the others stay as given."""

    names: tuple[str, ...]
    others: Constants = Constants()

    @property
    def start(self) -> Float64:
        ms = {name: start / deviation for name, (start, deviation) in _IN_MS.items()}
        return np.array([ms.get(name, 0.0) for name in self.names])

    @property
    def bounds(self) -> tuple[Float64, Float64]:
        """Factors from 1/55 to 55; no term below 0 or beyond a second or two."""
        in_ms = np.array([name in _IN_MS for name in self.names])
        return np.where(in_ms, 0.0, -8.0), np.where(in_ms, 100.0, 8.0)

    def constants(self, vector: Float64) -> Constants:
        """In units of the prior's standard deviation, back into constants."""
        found = dict(zip(self.names, map(_value, self.names, vector.tolist()), strict=True))
        return replace(self.others, **found)


def _value(name: str, deviations: float) -> float:
    if name in _IN_MS:
        return deviations * _IN_MS[name][1]
    return math.exp(deviations * _PRIOR)
