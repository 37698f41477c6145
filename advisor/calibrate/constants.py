"""What a calibration may change about the cost of a step."""

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
            prefill_fs=round(self.prefill_ms * 1e12),
        )
        if self.request_ms is None:
            return changed
        ingest_ns = max(0, round(self.request_ms * 1e6) - cost.emit_ns)
        return replace(changed, ingest_ns=ingest_ns)


#: Factors are fitted as logarithms. One standard deviation of what data sheets leave open: a
#: factor of 1.65 either way. Where runs say nothing about a term it stays where it was.
_PRIOR = 0.5
#: The same of the terms in ms, around the value beside it.
_PREFILL_MS, _PREFILL_PRIOR_MS = 0.5, 2.0
_REQUEST_MS, _REQUEST_PRIOR_MS = 16.4, 20.0
_FACTORS = [
    each.name for each in fields(Constants) if each.name not in ("prefill_ms", "request_ms")
]


@dataclass(frozen=True, slots=True)
class Free:
    """The constants as a vector of unbounded, comparable numbers."""

    with_request: bool

    @property
    def names(self) -> list[str]:
        return [*_FACTORS, "prefill_ms", *(["request_ms"] if self.with_request else [])]

    @property
    def start(self) -> Float64:
        more = [_REQUEST_MS / _REQUEST_PRIOR_MS] if self.with_request else []
        return np.array([0.0] * len(_FACTORS) + [_PREFILL_MS / _PREFILL_PRIOR_MS] + more)

    @property
    def bounds(self) -> tuple[Float64, Float64]:
        """Factors from 1/55 to 55; no term below 0 or beyond a second."""
        low = [-8.0] * len(_FACTORS) + [0.0] * (len(self.names) - len(_FACTORS))
        high = [8.0] * len(_FACTORS) + [100.0] * (len(self.names) - len(_FACTORS))
        return np.array(low), np.array(high)

    def constants(self, vector: Float64) -> Constants:
        """In units of the prior's standard deviation, back into constants."""
        numbers = vector.tolist()
        factors = {
            name: float(np.exp(each * _PRIOR))
            for name, each in zip(_FACTORS, numbers, strict=False)
        }
        more = numbers[len(_FACTORS) :]
        request_ms = more[1] * _REQUEST_PRIOR_MS if self.with_request else None
        return Constants(**factors, prefill_ms=more[0] * _PREFILL_PRIOR_MS, request_ms=request_ms)
