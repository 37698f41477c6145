"""What a million tokens cost at the load that a setting carries."""

from collections.abc import Iterable

from advisor.terms.advice import Cost
from advisor.terms.job import JobSpec, Objective
from advisor.terms.measurement import Measurement
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict

_S_PER_H, _TOKENS = 3600.0, 1e6


def cost_of(
    setting: Setting, measured: Iterable[Measurement | None], spec: JobSpec
) -> Cost | None:
    """Of the measurements the one at the highest load that meets the targets.

    `GPUs * 1e6 / (3600 * total tokens/s)` GPU-hours: a service that is scaled to its traffic runs
    its servers there. None where neither the objective nor a price asks for it, or where no
    measurement meets the targets.
    """
    if spec.objective is not Objective.COST and spec.gpu_price is None:
        return None
    carried = [m for m in measured if m is not None and m.verdict is Verdict.MET]
    most = max(carried, key=lambda m: m.multiple, default=None)
    if most is None or most.total_tokens_per_s <= 0:
        return None
    hours = setting.gpus * _TOKENS / (_S_PER_H * most.total_tokens_per_s)
    money = None if spec.gpu_price is None else hours * spec.gpu_price
    return Cost(setting.gpus, most.multiple, hours, money)
