"""Why the figures of a finished job are what they are, from its rows alone."""

from advisor.advice.background import Ranges
from advisor.advice.explanation import Explanation, explain
from advisor.search.spacefile import parse_space
from advisor.store.ledger import SqlLedger
from advisor.terms.advice import Advice
from advisor.terms.job import Job, JobSpec
from advisor.tune.case import case_of


def ranges_of(spec: JobSpec) -> Ranges:
    """How far the job's Space reaches."""
    return tuple(
        (knob.name, knob.values)
        for knob in parse_space(spec.space).knobs
        if knob.type.is_ordered and len(knob.values) > 1
    )


def explained(ledger: SqlLedger, job: Job, advice: Advice) -> Explanation:
    """Of the advice that the job ended with; nothing is launched or written."""
    scored = ledger.scored(job.id)
    case = case_of(job, ledger.trials(job.id), scored, ranges=ranges_of(job.spec))
    setting = advice.choice.setting if advice.choice else None
    return explain(job, case.trials, case.noise, case.background, advice.outcome, setting)
