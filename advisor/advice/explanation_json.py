"""The explanation as part of the object that `advisor show --json` prints."""

from typing import Any

from advisor.advice.as_json import finite
from advisor.advice.costs import TargetCost
from advisor.advice.effects import KnobEffect
from advisor.advice.explanation import Explanation
from advisor.advice.spent import TimeSpent
from advisor.advice.tradeoff import Spot
from advisor.terms.measurement import Headroom


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Plain dicts, lists and numbers; what is missing or infinite is null, never 0."""
    trade_off = explanation.trade_off
    return {
        "knobs": [_knob(effect) for effect in explanation.effects],
        "knobs_untold": list(explanation.untold),
        "target_costs": [_cost(cost) for cost in explanation.costs],
        "trade_off": {
            "multiple": trade_off.multiple,
            "ttft_percentile": trade_off.ttft_percentile,
            "itl_percentile": trade_off.itl_percentile,
            "settings": [_spot(spot) for spot in trade_off.spots],
        },
        "time_spent": [_spent(each) for each in explanation.spent],
        "findings": [*explanation.reasons, *explanation.facts],
    }


def _knob(effect: KnobEffect) -> dict[str, Any]:
    return {
        "knob": effect.knob,
        "factor": effect.factor,
        "share_of_spread": effect.share,
        "within_noise": effect.is_alike,
        "pairs": [
            {
                "better": pair.better,
                "worse": pair.worse,
                "factor": pair.factor,
                "trials": list(pair.trials),
            }
            for pair in effect.pairs
        ],
    }


def _cost(cost: TargetCost) -> dict[str, Any]:
    return {
        "target": str(cost.target),
        "multiple": cost.multiple,
        "used": finite(cost.used),
        "nearest": cost.nearest,
        "headroom_without": _headroom(cost.without),
        "trial_without": cost.without_trial,
    }


def _spot(spot: Spot) -> dict[str, Any]:
    return {
        "trial": spot.trial,
        "changes": list(spot.changes),
        "ttft_ms": finite(spot.ttft_ms),
        "itl_ms": finite(spot.itl_ms),
        "headroom": _headroom(spot.headroom),
        "on_curve": spot.on_curve,
    }


def _spent(spent: TimeSpent) -> dict[str, Any]:
    return {
        "setting": dict(spent.setting.flags),
        "multiple": spent.multiple,
        "replays": spent.replays,
        "queue_ms": spent.queue_ms,
        "prefill_ms": spent.prefill_ms,
        "ttft_ms": spent.ttft_ms,
        "decode_ms": spent.decode_ms,
        "preemptions": spent.preemptions,
    }


def _headroom(bracket: Headroom | None) -> dict[str, Any] | None:
    return {"low": bracket.low, "high": bracket.high} if bracket else None
