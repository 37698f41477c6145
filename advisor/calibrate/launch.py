"""Constants from one launch of which both are known: the log of its steps, and a client's stamps.

The log shows what a step costs, and how unevenly. Laid beside it, the stamps show what it leaves
out: the server's time between two steps, and from a request's planned time to its first step.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from advisor.calibrate.constants import (
    BEFORE_STEPS,
    BETWEEN_STEPS,
    Constants,
    Float64,
    Free,
)
from advisor.calibrate.relive import Relived
from advisor.calibrate.runs import check_usable
from advisor.calibrate.solve import Fit, solve
from advisor.calibrate.steps import fit_steps, step_factors
from advisor.sim import EngineConfig
from advisor.sim.cost import CostModel
from advisor.terms.errors import InputError
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.traces import Int64, Traces

#: How far the time between two steps, and before a request's first, scatters around a good model.
_BETWEEN_MS, _BEFORE_MS = 1.0, 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """A launch, explained."""

    fit: Fit
    #: int64[steps], what each step's time was multiplied by, in millionths, in order
    factors: Int64

    def cost(self, config: EngineConfig, seed: int = 0) -> CostModel:
        """Another launch of this deployment: its noise begins at a place of its own."""
        begin = np.random.default_rng([seed, 2]).integers(len(self.factors))
        cost = self.fit.constants.apply(CostModel.of(config))
        return replace(cost, factors=np.roll(self.factors, -int(begin)))


def fit_launch(
    relived: Relived, traces: Traces, config: EngineConfig, outcome: ReplayOutcome
) -> Calibrated:
    """From a log that was followed, and the replay of the same requests in the same order.

    Raises InputError for a void replay, for events that are not of one token each, and where the
    log shows nothing.
    """
    check_usable(outcome)
    steps = fit_steps(relived, config)
    stamps = _Stamps.of(relived, traces)
    rest = _fit_rest(stamps, CostModel.of(config), steps.constants)
    both = Fit(
        free=Free((*steps.free.names, *rest.free.names)),
        vector=np.concatenate((steps.vector, rest.vector)),
        covariance=block_diag(steps.covariance, rest.covariance),
        residuals_pct=steps.residuals_pct,
        samples=steps.samples + rest.samples,
    )
    return Calibrated(both, step_factors(relived, config, steps.constants))


def _fit_rest(stamps: "_Stamps", cost: CostModel, steps: Constants) -> Fit:
    """What passes between steps and before them."""

    def residuals(constants: Constants) -> Float64:
        model = constants.apply(cost)
        before_ms = (model.ingest_ns + model.emit_ns) / 1e6
        return np.concatenate(
            (
                (stamps.between.passing_ms(model) - stamps.between.left_ms) / _BETWEEN_MS,
                (before_ms + stamps.before.passing_ms(model) - stamps.before.left_ms) / _BEFORE_MS,
            )
        )

    return solve(Free((*BETWEEN_STEPS, *BEFORE_STEPS), others=steps), residuals, lambda _: {})


@dataclass(frozen=True, slots=True, eq=False)
class _Left:
    """Spans of time less the logged times of the steps in them."""

    #: float64[spans]
    left_ms: Float64
    #: how often the server passed from one step to the next, and the sequences of the steps before
    passages: Int64
    sequences: Int64

    def passing_ms(self, cost: CostModel) -> Float64:
        passing_fs = self.passages * cost.host_fs + self.sequences * cost.host_sequence_fs
        return np.asarray(passing_fs / 1e12)

    def those(self, chosen: NDArray[np.bool_]) -> "_Left":
        return _Left(self.left_ms[chosen], self.passages[chosen], self.sequences[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class _Stamps:
    """What a client saw that the logged times of the steps do not explain."""

    #: from one step's tokens to the next one's, while the server had work
    between: _Left
    #: from the planned time to the first token, of requests that woke an idle server
    before: _Left

    @classmethod
    def of(cls, relived: Relived, traces: Traces) -> "_Stamps":
        if (np.diff(traces.event_offsets) != traces.output_tokens).any():
            raise InputError("calibration: events of several tokens, or none; expected one each")
        request, step = relived.emitted.T
        token = _ordinals(request)
        seen_ns = traces.event_ns[traces.event_offsets[request] + token]
        # Of all steps before step k.
        busy_ns = _before(relived.composition[:, 5])
        sequences, idle = _before(relived.composition[:, 0]), _before(~relived.busy_after)

        def left(span_ns: NDArray[Any], began: Int64, since: Int64, until: Int64) -> _Left:
            """Of spans in which the steps from `began` to `until` ran."""
            ran_ns = busy_ns[until + 1] - busy_ns[began]
            passed = sequences[until] - sequences[since]
            return _Left((span_ns - ran_ns) / 1e6, until - since, passed)

        emitting, places = np.unique(step, return_index=True)
        end_ns = np.array([np.median(each) for each in np.split(seen_ns, places[1:])])
        since, until = emitting[:-1], emitting[1:]
        between = left(np.diff(end_ns), since + 1, since, until)
        steady = idle[until] == idle[since]

        # The first of those that began together woke the server.
        first = np.flatnonzero(token == 0)
        first = first[np.argsort(request[first])]
        who = request[first]
        since, until = relived.arrived[who], step[first]
        woke = (since == 0) | ~relived.busy_after[since - 1]
        woke &= (who == 0) | (since != relived.arrived[who - 1])
        before = left(seen_ns[first] - traces.planned_ns[who], since, since, until)
        return cls(between.those(steady), before.those(woke))


def _before(each: NDArray[Any]) -> Int64:
    """int64[n + 1]: the sum of all before place k."""
    return np.concatenate(([0], np.cumsum(each, dtype=np.int64)))


def _ordinals(request: Int64) -> Int64:
    """How many tokens of the same request came before."""
    order = np.argsort(request, kind="stable")
    grouped = request[order]
    begins = np.searchsorted(grouped, grouped)
    found = np.empty_like(request)
    found[order] = np.arange(len(request)) - begins
    return found
