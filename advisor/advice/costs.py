"""What each target costs: which one ends the headroom, and what there would be without it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.advice.effects import ON_A_LADDER
from advisor.measure.headroom import headroom
from advisor.terms.job import JobSpec, Trial
from advisor.terms.measurement import Headroom, Judgement
from advisor.terms.target import Metric, Target


@dataclass(frozen=True, slots=True)
class TargetCost:
    """One target at the load multiple that a trial is proven to carry on the search's load."""

    target: Target
    multiple: float
    #: estimate over limit there, above 1 beyond it; None without an estimate
    used: float | None
    #: whether none of the targets is nearer to its limit, or further beyond it
    nearest: bool
    #: by the same verdicts, were it not for this target: of the trial that carries most then;
    #: None where no other target is left, or headroom was not looked for
    without: Headroom | None
    #: the number of that trial
    without_trial: int | None


def target_costs(about: Trial, trials: Sequence[Trial], spec: JobSpec) -> tuple[TargetCost, ...]:
    """In the order of the targets; empty where `about` was not measured at the multiple.

    `trials` are those that may be advised. Nothing above the multiples that were tried is known,
    and where an early stop left a target unseen it is not met.
    """
    multiple = _carried(about, spec)
    measured = about.result.at(multiple)
    if measured is None:
        return ()
    used = [_used(judgement) for judgement in measured.judgements]
    most = max((each for each in used if each is not None), default=None)
    costs = []
    for judgement, part in zip(measured.judgements, used, strict=True):
        found = _without(judgement.target, [about, *trials], spec)
        costs.append(
            TargetCost(
                target=judgement.target,
                multiple=multiple,
                used=part,
                nearest=part is not None and part == most,
                without=found[0] if found else None,
                without_trial=found[1] if found else None,
            )
        )
    return tuple(costs)


def cost_line(costs: Sequence[TargetCost], trials: Sequence[Trial]) -> str | None:
    """The target without which most would be carried, where that is more than any trial carries
    with it."""
    brackets = [trial.result.headroom for trial in trials]
    carried = max((each.low or 0.0 for each in brackets if each is not None), default=0.0)
    gains = [
        (cost.without, cost)
        for cost in costs
        if cost.without is not None and (cost.without.low or 0.0) > carried
    ]
    if not gains:
        return None
    free, cost = max(gains, key=lambda each: _rank(each[0]))
    part = "" if cost.used is None else f", {100 * cost.used:.0f} % used at {cost.multiple:g}x"
    return (
        f"{cost.target} ends the headroom{part}: without it trial "
        f"{cost.without_trial} would carry {free} times the recorded load, by the search's replays"
    )


def _carried(trial: Trial, spec: JobSpec) -> float:
    """The largest multiple proven on the search's load, at least the job's load."""
    bracket = trial.result.headroom
    low = None if bracket is None else bracket.low
    return spec.load if low is None else max(low, spec.load)


def _used(judgement: Judgement) -> float | None:
    target, estimate = judgement.target, judgement.estimate
    limit = target.limit if target.metric is Metric.ERRORS else target.limit_ns / 1e6
    return None if estimate is None or limit == 0 else estimate / limit


def _without(
    target: Target, trials: Sequence[Trial], spec: JobSpec
) -> tuple[Headroom, int] | None:
    """The best headroom by the other targets' verdicts alone, and whose it is; of equals the
    first."""
    if spec.objective not in ON_A_LADDER:
        return None
    best: tuple[Headroom, int] | None = None
    for trial in trials:
        points = [
            replace(m, judgements=tuple(j for j in m.judgements if j.target != target))
            for m in trial.result.measurements
        ]
        if not points or not all(point.judgements for point in points):
            continue
        found = headroom(points)
        if best is None or _rank(found) > _rank(best[0]):
            best = found, trial.number
    return best


def _rank(bracket: Headroom) -> tuple[float, float]:
    return bracket.low or 0.0, bracket.estimate
