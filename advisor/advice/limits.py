"""When no flag can help: whether capacity, prompt length or hardware is the limit.

Each line has the figure that shows it, and is said only where every setting that ran shows it.
"""

import math
from collections.abc import Sequence

from advisor.advice.effects import ALIKE, at_an_end, log_score
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import JobSpec, Trial
from advisor.terms.measurement import Judgement, Measurement
from advisor.terms.target import Metric, Target, Verdict

#: A latency that all of the job's load adds less than this part to is not made by a queue.
_HARDLY = 0.2
#: Fewer settings that are alike say little of the Space.
_LEAST_SETTINGS = 3


def limit_lines(
    outcome: AdviceOutcome, trials: Sequence[Trial], targets: Sequence[Target], spec: JobSpec
) -> list[str]:
    """Of trials that were measured and may be advised; none where a setting does help."""
    if outcome is AdviceOutcome.NONE_MEETS:
        floors = [floor_line(target, trials, spec) for target in targets]
        lines = [*floors, capacity_line(trials, spec)]
    elif outcome is AdviceOutcome.KEEP_CURRENT:
        lines = [alike_line(trials, spec)]
    else:
        lines = []
    return [line for line in lines if line]


def floor_line(target: Target, trials: Sequence[Trial], spec: JobSpec) -> str | None:
    """A latency that every setting misses even at the least load tried, below the job's."""
    if target.metric is Metric.ERRORS:
        return None
    found = [_least_load(trial, target, spec) for trial in trials]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    bound_ms, multiple, best = min(known, key=lambda each: each[0])
    settings = "1 setting" if len(known) == 1 else f"{len(known)} settings"
    why = _is_decoding(target, [each[2] for each in known]) or _is_reading(target, best, spec)
    return (
        f"No flag tried brings {target.metric.upper()} p{target.percentile:g} within its limit "
        f"of {target.limit:g} {target.unit}, even at the least load tried ({settings}): at "
        f"{multiple:g}x it is at least {bound_ms:.4g} ms{why}"
    )


def capacity_line(trials: Sequence[Trial], spec: JobSpec) -> str | None:
    """How many servers would carry the job's load, where one carries part of it."""
    carried = [
        (headroom.low, -trial.number)
        for trial in trials
        if (headroom := trial.result.headroom) is not None and headroom.low is not None
    ]
    if not carried or max(carried)[0] >= spec.load:
        return None
    low, number = max(carried)
    servers = math.ceil(spec.load / low - 1e-9)
    return (
        f"It is a matter of capacity: the best setting tried, trial {-number}, carries {low:g}x "
        f"of the recorded load; {servers} such servers would carry {spec.load:g}x (estimated, the "
        "load shared evenly)"
    )


def alike_line(trials: Sequence[Trial], spec: JobSpec) -> str | None:
    """Where all settings carry the same, as far as a launch can tell."""
    known = [value for trial in trials if (value := log_score(trial, spec)) is not None]
    ends = {at_an_end(trial, spec) for trial in trials}
    if len(known) < max(len(trials), _LEAST_SETTINGS) or (len(ends) == 1 and ends != {0}):
        return None
    spread = math.exp(max(known) - min(known))
    if spread > ALIKE:
        return None
    return (
        f"All {len(known)} settings measured are alike: by {spec.objective} the best is "
        f"{spread:.2f} times as good as the worst, which launches of one setting differ by; more "
        "than that is a matter of hardware, of more servers or of shorter prompts"
    )


def _least_load(trial: Trial, target: Target, spec: JobSpec) -> tuple[float, float, Trial] | None:
    """Where the target is missed at the least multiple tried, one below the job's load: its lower
    bound in ms, and the multiple."""
    points = trial.result.measurements
    judgement = _of(points[0], target) if points else None
    if judgement is None or judgement.verdict is not Verdict.MISSED:
        return None
    bound_ms, multiple = judgement.lower, points[0].multiple
    if bound_ms is None or not math.isfinite(bound_ms) or multiple >= spec.load:
        return None
    return bound_ms, multiple, trial


def _is_decoding(target: Target, trials: Sequence[Trial]) -> str:
    """Of gaps: where half of them are over the limit in every setting, it is no single stall."""
    if target.metric not in (Metric.ITL, Metric.TOKEN_ITL, Metric.TPOT):
        return ""
    at_least = (trial.result.measurements[0] for trial in trials)
    medians_ms = [p.p50_ms for m in at_least for p in m.percentiles if p.metric is target.metric]
    if len(medians_ms) < len(trials) or not target.limit_ns / 1e6 < min(medians_ms) < math.inf:
        return ""
    return (
        f", and the median {min(medians_ms):.4g} ms: decoding itself takes that long here, a "
        "matter of hardware, of fewer bits or of a smaller model"
    )


def _is_reading(target: Target, trial: Trial, spec: JobSpec) -> str:
    """Of TTFT: where the job's load hardly adds to it, it is not made by a queue."""
    least, at_load = trial.result.measurements[0], trial.result.at(spec.load)
    if target.metric is not Metric.TTFT or at_load is None:
        return ""
    less, more = (_estimate_ms(point, target) for point in (least, at_load))
    if less is None or more is None or more > (1 + _HARDLY) * less:
        return ""
    return (
        f". More load hardly adds to it ({less:.4g} ms there, {more:.4g} ms at "
        f"{spec.load:g}x), so no queue makes it: it is a matter of prompt length or hardware"
    )


def _of(measured: Measurement, target: Target) -> Judgement | None:
    return next((j for j in measured.judgements if j.target == target), None)


def _estimate_ms(measured: Measurement, target: Target) -> float | None:
    judgement = _of(measured, target)
    estimate = None if judgement is None else judgement.estimate
    return estimate if estimate is not None and math.isfinite(estimate) else None
