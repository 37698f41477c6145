"""Constants from stamps of requests: when each was asked for, its first token and its last."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.calibrate.constants import (
    BEFORE_STEPS,
    BETWEEN_STEPS,
    IN_STEPS,
    Constants,
    Float64,
    Free,
)
from advisor.calibrate.solve import Fit, solve
from advisor.sim import EngineConfig, simulate
from advisor.sim.cost import CostModel, no_noise
from advisor.terms.errors import InputError
from advisor.terms.load import Load
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.traces import Int64, RequestStatus, Traces

#: How far a single request's TTFT and TPOT scatter around a good model, as a share.
_TTFT_SPREAD, _TPOT_SPREAD = 0.2, 0.02
#: Replays whose times say something of the server's steps. Overload is welcome, a late client not.
_USABLE = frozenset(
    {
        ReplayOutcome.VALID,
        ReplayOutcome.NOISY,
        ReplayOutcome.UNDERPOWERED,
        ReplayOutcome.STOPPED_EARLY,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One real replay of a load on one configuration."""

    config: EngineConfig
    load: Load
    #: int64[n], after the start of the replay, in ns
    first_ns: Int64
    last_ns: Int64
    #: bool[n]: requests that the fit may look at
    used: NDArray[np.bool_]
    #: stamps are the engine's own, so that neither network nor HTTP is in them
    at_engine: bool

    def __post_init__(self) -> None:
        if not self.used.any():
            raise InputError("calibration: the run has 0 usable requests; expected 1 or more")

    @classmethod
    def of_traces(
        cls, traces: Traces, load: Load, config: EngineConfig, outcome: ReplayOutcome
    ) -> "Run":
        """What a client saw. Raises InputError for a replay that was void.

        Turns that waited for an answer are asked for when they really were: what the fit makes of
        earlier answers moves none of them.
        """
        check_usable(outcome)
        used = (traces.status == RequestStatus.OK) & (np.diff(traces.event_offsets) > 0)
        first = np.zeros(len(load), dtype=np.int64)
        first[used] = traces.event_ns[traces.event_offsets[:-1][used]]
        asked = replace(load, at_ns=traces.planned_ns, turns=None)
        return cls(config, asked, first, traces.end_ns, used, at_engine=False)

    def cost(self, constants: Constants) -> CostModel:
        """The launch as modelled, without noise."""
        cost = replace(CostModel.of(self.config), factors=no_noise())
        if self.at_engine:
            cost = replace(cost, ingest_ns=0, emit_ns=0)
        return constants.apply(cost)

    def times(self, constants: Constants) -> tuple[Int64, Int64]:
        """First and last token of each request as simulated."""
        end = int(self.load.at_ns.max()) + 1
        traces = simulate(
            self.load,
            self.config,
            window_start_ns=0,
            window_end_ns=end,
            cost=self.cost(constants),
        ).traces
        # One that is refused has no event; it is not among those used.
        first = np.minimum(traces.event_offsets[:-1], len(traces.event_ns) - 1)
        return traces.event_ns[first], traces.end_ns

    def errors(self, constants: Constants) -> tuple[Float64, Float64]:
        """ln(simulated / recorded) of TTFT, and of TPOT where there is more than one token."""
        first, last = self.times(constants)
        used, at = self.used, self.load.at_ns
        ttft = np.log((first - at)[used] / (self.first_ns - at)[used])
        several = used & (self.load.output_length > 1) & (self.last_ns > self.first_ns)
        tpot = np.log((last - first)[several] / (self.last_ns - self.first_ns)[several])
        return ttft, tpot


def check_usable(outcome: ReplayOutcome) -> None:
    """Raises InputError for a replay whose times say nothing of its server."""
    if outcome not in _USABLE:
        usable = ", ".join(sorted(_USABLE))
        raise InputError(f"calibration: replay outcome is {outcome}; expected one of {usable}")


def fit_runs(runs: Sequence[Run]) -> Fit:
    """Constants that explain these runs of one deployment, of any settings."""
    names = (*IN_STEPS, *BETWEEN_STEPS)
    if not all(run.at_engine for run in runs):
        names += BEFORE_STEPS
    free = Free(names)

    def residuals(constants: Constants) -> Float64:
        parts = [run.errors(constants) for run in runs]
        return np.concatenate(
            [each for ttft, tpot in parts for each in (ttft / _TTFT_SPREAD, tpot / _TPOT_SPREAD)]
        )

    def shares(constants: Constants) -> dict[str, float]:
        parts = [run.errors(constants) for run in runs]
        pooled = {"ttft": [ttft for ttft, _ in parts], "tpot": [tpot for _, tpot in parts]}
        return {
            name: 100 * float(np.median(np.abs(np.concatenate(each))))
            for name, each in pooled.items()
        }

    return solve(free, residuals, shares)
