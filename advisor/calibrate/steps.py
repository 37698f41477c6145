"""Constants from the times of single steps, as vLLM's iteration log gives them."""

from dataclasses import replace

import numpy as np

from advisor.calibrate.constants import IN_STEPS, Constants, Float64, Free
from advisor.calibrate.relive import Relived
from advisor.calibrate.solve import Fit, solve
from advisor.sim import EngineConfig
from advisor.sim.cost import CostModel, no_noise, padded
from advisor.terms.errors import InputError
from advisor.terms.traces import Int64

#: How far a single step scatters around a good model, as a share.
_SPREAD = 0.05
_FS_PER_NS = 1e6


def fit_steps(relived: Relived, config: EngineConfig) -> Fit:
    """Constants that explain the steps of one launch. Raises InputError without any step."""
    if relived.steps == 0:
        raise InputError("calibration: 0 steps of the log can be followed; expected 1 or more")
    cost = replace(CostModel.of(config), factors=no_noise())
    logged = relived.composition[:, 5] > 0
    composition, elapsed = relived.composition[logged], relived.composition[logged, 5]

    def errors(constants: Constants) -> Float64:
        wrong: Float64 = np.log(steps_ns(constants.apply(cost), composition) / elapsed)
        return wrong

    return solve(
        Free(IN_STEPS),
        lambda constants: errors(constants) / _SPREAD,
        lambda constants: {"step": 100 * float(np.median(np.abs(errors(constants))))},
    )


def steps_ns(cost: CostModel, composition: Int64) -> Float64:
    """`CostModel.step_ns` for many steps at once, without noise; float64[steps], in ns."""
    sequences, tokens, context, pairs, prefills = composition.T[:5]
    graph = cost.largest_graph
    filled = np.array([padded(each, graph) for each in tokens.tolist()])
    weights = np.array(cost.weights_fs)[np.minimum(filled, len(cost.weights_fs) - 1)]
    total = np.maximum(weights, filled * cost.token_fs).astype(np.float64)
    total += context * cost.context_fs + pairs * cost.pair_fs + prefills * cost.prefill_fs
    total += cost.step_fs + sequences * cost.sequence_fs + filled * cost.reduce_fs
    total += np.where(filled > graph, cost.launch_fs, 0)
    nanoseconds: Float64 = total / _FS_PER_NS
    return nanoseconds


def step_factors(relived: Relived, config: EngineConfig, constants: Constants) -> Int64:
    """What the model leaves open of each step, in the order of the log: logged over modelled.

    int64[steps], in millionths, as `CostModel.factors` takes them. In order, since a slow step is
    seldom alone: a neighbour on the machine stays for a while.
    """
    cost = constants.apply(replace(CostModel.of(config), factors=no_noise()))
    share = relived.composition[:, 5] / steps_ns(cost, relived.composition)
    factors: Int64 = np.round(share * 1e6).astype(np.int64)
    return factors
