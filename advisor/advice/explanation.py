"""Why the figures of a job are what they are, from what its ledger holds; nothing is launched."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.advice.background import Background
from advisor.advice.choose import is_eligible
from advisor.advice.costs import TargetCost, cost_line, target_costs
from advisor.advice.effects import KnobEffect, knob_effects, untold
from advisor.advice.findings import (
    edge_line,
    ignored_line,
    kv_cache_line,
    no_effect_line,
    prefix_line,
    seats_line,
)
from advisor.advice.limits import limit_lines
from advisor.advice.spent import TimeSpent, time_spent
from advisor.advice.tradeoff import TradeOff, trade_off
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Job, JobSpec, Phase, Trial
from advisor.terms.measurement import Noise
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is known beyond the advice; what was not measured is not in it."""

    #: the largest first
    effects: tuple[KnobEffect, ...]
    #: knobs that were changed, and of which no two trials tell anything
    untold: tuple[str, ...]
    #: of the setting that the outcome is about
    costs: tuple[TargetCost, ...]
    trade_off: TradeOff
    #: of the setting that the outcome is about, then of the baseline where that is another
    spent: tuple[TimeSpent, ...]
    #: sentences that a decision may rest on
    reasons: tuple[str, ...]
    #: other sentences
    facts: tuple[str, ...]


def explain(
    job: Job,
    trials: Sequence[Trial],
    noise: Sequence[Noise],
    background: Background,
    outcome: AdviceOutcome,
    choice: Setting | None,
) -> Explanation:
    """Of the baseline's and the search's trials; `choice` is what the outcome is about."""
    spec = job.spec
    measured = [trial for trial in trials if trial.result.state is TrialState.MEASURED]
    baseline = next((t.setting for t in trials if t.phase is Phase.BASELINE), None)
    about = next((trial for trial in measured if trial.setting == choice), None)
    accept = spec.accept_precision_change
    may_be = [t for t in measured if baseline is None or is_eligible(t.setting, baseline, accept)]
    effects = knob_effects(measured, spec)
    costs = target_costs(about, may_be, spec) if about else ()
    reasons = [
        cost_line(costs, may_be),
        *limit_lines(outcome, may_be, job.targets, spec),
        edge_line(about, effects, background, spec) if about else None,
        no_effect_line(effects, measured, noise, spec),
        ignored_line(trials),
    ]
    compared = dict.fromkeys(each for each in (choice, baseline) if each is not None)
    return Explanation(
        effects=effects,
        untold=untold(measured, spec, effects),
        costs=costs,
        trade_off=trade_off(measured, job.targets, spec, baseline),
        spent=time_spent(tuple(compared), spec.load, background),
        # where nothing was decided, nothing is a reason
        reasons=tuple(line for line in reasons if line and outcome is not AdviceOutcome.BLOCKED),
        facts=_facts(about, background, spec),
    )


def _facts(about: Trial | None, background: Background, spec: JobSpec) -> tuple[str, ...]:
    lines = [
        seats_line(about, background, spec) if about else None,
        kv_cache_line(background),
        prefix_line(about, background) if about else None,
    ]
    return tuple(line for line in lines if line)
