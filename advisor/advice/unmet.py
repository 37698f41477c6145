"""When no setting meets the targets: whether that is shown, and which one comes nearest."""

import math

from advisor.advice.case import Case
from advisor.advice.choose import is_eligible
from advisor.measure.headroom import worst_excess
from advisor.terms.job import Trial
from advisor.terms.measurement import Judgement
from advisor.terms.outcome import TrialState
from advisor.terms.target import Metric, Verdict


def answered(case: Case) -> list[Trial]:
    """What may be advised and ran to an answer; a failure that is ours is none."""
    answers = (TrialState.MEASURED, TrialState.INFEASIBLE)
    return [t for t in case.trials if t.result.state in answers and _eligible(case, t)]


def all_missed(case: Case) -> bool:
    """Every setting with an answer cannot run, or provably misses a target at the job's load."""
    found = answered(case)
    # a setting that runs but has no verdict could still be the one that meets
    return bool(found) and all(_missed(trial, case.job.spec.load) for trial in found)


def _missed(trial: Trial, load: float) -> bool:
    if trial.result.state is TrialState.INFEASIBLE:
        return True
    measurement = trial.result.at(load)
    return measurement is not None and measurement.verdict is Verdict.MISSED


def _eligible(case: Case, trial: Trial) -> bool:
    if case.baseline is None:
        return True
    accept = case.job.spec.accept_precision_change
    return is_eligible(trial.setting, case.baseline.setting, accept)


def nearest(case: Case) -> Trial | None:
    """By headroom; where that was not looked for, or is below all that was tried, by the miss."""
    measured = [t for t in case.trials if t.result.headroom is not None and _eligible(case, t)]
    return max(measured, key=lambda t: _nearness(t, case.job.spec.load), default=None)


def _nearness(trial: Trial, load: float) -> tuple[float, float]:
    headroom, at_load = trial.result.headroom, trial.result.at(load)
    return (
        headroom.estimate if headroom else 0.0,
        -worst_excess(at_load) if at_load else -math.inf,
    )


def would_meet_line(trial: Trial, load: float) -> str | None:
    """What this setting does meet: the limits at the job's load, and the load for the limits."""
    at_load, headroom = trial.result.at(load), trial.result.headroom
    unmet = [j for j in at_load.judgements if j.verdict is not Verdict.MET] if at_load else []
    limits = [_limit(judgement) for judgement in unmet]
    ways = []
    if limits and all(limits):
        ways.append(f"{' and '.join(each for each in limits if each)} at this load")
    if headroom is not None and headroom.low is not None:
        ways.append(f"the targets as they are at {headroom.low:g}x the recorded load")
    return f"What it does meet, as far as was measured: {'; or '.join(ways)}" if ways else None


def _limit(judgement: Judgement) -> str | None:
    """The least limit that its upper bound would meet, None where it has no such bound."""
    target, upper = judgement.target, judgement.upper
    if upper is None or math.isinf(upper):
        return None
    if target.metric is Metric.ERRORS:
        return f"errors<={_up(upper, 3)}%"
    return f"{target.metric}:p{target.percentile:g}<={_up(upper, 4)}ms"


def _up(value: float, digits: int) -> str:
    """With so many significant digits, never less than it."""
    if value <= 0:
        return "0"
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return f"{math.ceil(value * scale) / scale:.12g}"
