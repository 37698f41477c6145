"""What a knob does to the objective: from trials that differ in this knob alone.

A dozen trials are too few to fit a model of many knobs whose parts could be believed, so none is
fitted. Two trials that differ in one knob show what it does there, and how often that was seen is
told beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from advisor.advice.choose import score
from advisor.terms.flags import FlagValue
from advisor.terms.job import JobSpec, Objective, Trial
from advisor.terms.setting import Setting

#: Objectives whose ratio is at most this are alike: near saturation, launches of one setting
#: differ by as much.
ALIKE = 1.1
#: What a change of the checkpoint goes by.
MODEL = "model"
#: These are looked for on a ladder of load multiples.
ON_A_LADDER = (Objective.HEADROOM, Objective.COST)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trials that differ in one knob alone."""

    #: of the trial with the better objective, and of the other; None where the flag is not set
    better: FlagValue | None
    worse: FlagValue | None
    #: the better objective over the other one, by their point estimates; at least 1
    factor: float
    #: their numbers, the better one's first
    trials: tuple[int, int]


@dataclass(frozen=True, slots=True)
class KnobEffect:
    """What one knob did in this job, as measured."""

    knob: str
    #: the largest factor first; at least one
    pairs: tuple[Pair, ...]
    #: what it explains of the distance between the best and the worst trial, both as logarithms:
    #: 0..1 by the pairs' median; None where all trials are alike. Parts of several knobs need not
    #: add up to 1
    share: float | None

    @property
    def factor(self) -> float:
        """The pairs' median."""
        return median(pair.factor for pair in self.pairs)

    @property
    def is_alike(self) -> bool:
        """Whether no pair differs by more than launches of one setting do."""
        return self.pairs[0].factor <= ALIKE


def knob_effects(trials: Sequence[Trial], spec: JobSpec) -> tuple[KnobEffect, ...]:
    """Of every knob with a pair among the trials, the largest factor first."""
    known = [(t, value) for t in trials if (value := log_score(t, spec)) is not None]
    spread = _spread([value for _, value in known])
    pairs: dict[str, list[Pair]] = {}
    for (one, left), (other, right) in combinations(known, 2):
        knob = difference(one.setting, other.setting)
        if knob is None or _at_one_end(one, other, spec):
            continue
        best, rest = (one, other) if left >= right else (other, one)
        values = (_value(best.setting, knob), _value(rest.setting, knob))
        factor, numbers = math.exp(abs(left - right)), (best.number, rest.number)
        pairs.setdefault(knob, []).append(Pair(*values, factor, numbers))
    found = [_effect(knob, each, spread) for knob, each in pairs.items()]
    return tuple(sorted(found, key=lambda effect: (-effect.factor, effect.knob)))


def untold(
    trials: Sequence[Trial], spec: JobSpec, effects: Sequence[KnobEffect]
) -> tuple[str, ...]:
    """Knobs that were changed, but of which no two trials tell anything."""
    values: dict[str, set[str]] = {}
    for trial in trials:
        if log_score(trial, spec) is not None:
            for name, value in trial.setting.flags:
                if name in trial.setting.knobs:
                    values.setdefault(name, set()).add(str(value))
    told = {effect.knob for effect in effects}
    return tuple(sorted(n for n, seen in values.items() if len(seen) > 1 and n not in told))


def log_score(trial: Trial, spec: JobSpec) -> float | None:
    """The objective as a logarithm, to be raised; None without one that can be compared.

    Headroom of a trial that was measured at one multiple alone is no figure to compare, nor is
    what an early stop left of a rate or a latency.
    """
    value, at_load = score(trial.result, spec), trial.result.at(spec.load)
    if value is None or at_load is None:
        return None
    if spec.objective in ON_A_LADDER:
        comparable = len(trial.result.measurements) > 1
    else:
        comparable = not at_load.stopped
    if not comparable:
        return None
    if spec.objective is Objective.LATENCY:
        return value  # it is one already
    return math.log(value) if value > 0 else None


def difference(one: Setting, other: Setting) -> str | None:
    """The only flag in which they differ, or `model`; None when there is none, or several."""
    left, right = dict(one.flags), dict(other.flags)
    names = [name for name in left.keys() | right.keys() if left.get(name) != right.get(name)]
    names += [MODEL] * (one.model != other.model)
    return names[0] if len(names) == 1 else None


def at_an_end(trial: Trial, spec: JobSpec) -> int:
    """1 where its headroom is all that was tried or more, -1 where it is less than anything that
    was tried, 0 in between: only there a figure is known."""
    headroom, points = trial.result.headroom, trial.result.measurements
    if spec.objective not in ON_A_LADDER or headroom is None or not points:
        return 0
    if headroom.high is None and headroom.estimate >= points[-1].multiple:
        return 1
    return -1 if headroom.low is None and headroom.estimate <= points[0].multiple else 0


def _at_one_end(one: Trial, other: Trial, spec: JobSpec) -> bool:
    """Whether nothing tells which is better: both are beyond what was tried, on the same side, or
    for cost one of them, since the same load is another on each GPU."""
    ends = {at_an_end(one, spec), at_an_end(other, spec)}
    if one.setting.gpus != other.setting.gpus and spec.objective is Objective.COST:
        return ends != {0}
    return len(ends) == 1 and ends != {0}


def _effect(knob: str, pairs: list[Pair], spread: float) -> KnobEffect:
    ranked = tuple(sorted(pairs, key=lambda pair: (-pair.factor, pair.trials)))
    typical = math.log(median(pair.factor for pair in ranked))
    return KnobEffect(knob, ranked, typical / spread if spread > math.log(ALIKE) else None)


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else 0.0


def _value(setting: Setting, knob: str) -> FlagValue | None:
    return setting.model if knob == MODEL else setting.get(knob)
