"""What a job's rows alone can tell: nothing here launches, replays or searches."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor.advice.advise import advise
from advisor.report.requests import Exported
from advisor.store.database import probe
from advisor.store.ledger import SqlLedger
from advisor.store.location import default_url
from advisor.store.owner import Owner
from advisor.terms.advice import Advice
from advisor.terms.errors import InputError
from advisor.terms.job import Job, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.target import Metric, parse_targets
from advisor.tune.case import case_of, judged_again
from advisor.wiring.explained import ranges_of


def probe_ledger(url: str | None) -> None:
    """Raise what opening the database would raise, and create nothing."""
    probe(url or default_url())


def open_ledger(url: str | None, *, create: bool = True) -> SqlLedger:
    """The database at `url`, else at $ADVISOR_DB, else in the user's data folder."""
    return SqlLedger(url or default_url(), owner=Owner.this_process(), create=create)


def trials_now(ledger: SqlLedger, job_id: str) -> list[Trial]:
    """Of a job that nobody works on no trial runs, whatever its row says; nothing is written."""
    trials = ledger.trials(job_id)
    if not ledger.is_abandoned(job_id):
        return trials
    interrupted = TrialResult(TrialState.INTERRUPTED)
    return [
        replace(trial, result=interrupted) if trial.result.state is TrialState.RUNNING else trial
        for trial in trials
    ]


def judge_again(
    ledger: SqlLedger, job_id: str, targets: Sequence[str]
) -> tuple[Job, list[Trial], Advice]:
    """What a job's stored replays say about other targets. Raises InputError for relative ones.

    The error rate keeps the limit that the job had unless one is given. A setting is advised only
    where its confirmation, as it was run, carries the new targets too.
    """
    asked = parse_targets(targets)
    relative = next((target for target in asked if target.is_relative), None)
    if relative is not None:
        raise InputError(f"target {relative}: what-if needs the limit in ms, s or %")
    job, scored = ledger.job(job_id), ledger.scored(job_id)
    if not any(target.metric is Metric.ERRORS for target in asked):
        asked += tuple(t for t in job.targets if t.metric is Metric.ERRORS)
    job, trials = judged_again(job, ledger.trials(job_id), scored, asked)
    notes, ranges = (WHAT_IF_NOTE,), ranges_of(job.spec)
    return job, trials, advise(case_of(job, trials, scored, notes, ranges))


WHAT_IF_NOTE = "Judged again from stored replays; settings that were not confirmed stay unproven"


def exported_replays(ledger: SqlLedger, job: Job) -> Iterator[Exported]:
    """Every attempt of every trial, in the order played; one is in memory at a time."""
    for trial in ledger.trials(job.id):
        for replay in ledger.replays(job.id, trial.number):
            yield Exported(
                trial=trial.number,
                phase=str(trial.phase),
                replay=replay.ordinal,
                window=replay.plan.window.name,
                multiple=replay.plan.multiple,
                outcome=str(replay.outcome),
                traces=ledger.traces(replay.id),
            )
