"""A job from a terminal: started or resumed, watched, and its result printed."""

import asyncio
import json
from pathlib import Path

import typer
from rich.console import Console

from advisor.advice.as_json import as_json
from advisor.cli.explained import print_explanation
from advisor.cli.options import Interrupted, resume_command
from advisor.cli.played import print_played
from advisor.cli.progress import StderrWatch
from advisor.cli.report import check_report, write_report
from advisor.cli.tables import print_advice, stdout_console, trials_table
from advisor.store.ledger import SqlLedger
from advisor.terms.advice import Advice
from advisor.terms.errors import AdvisorError, EngineError, LeaseLost, LedgerError
from advisor.terms.job import Job
from advisor.tune.case import baseline_of
from advisor.wiring.asked import Asked
from advisor.wiring.explained import explained
from advisor.wiring.gpus import check_gpu_hours
from advisor.wiring.prepare import Prepared, prepare
from advisor.wiring.rehearsed import rehearsed
from advisor.wiring.run import run
from advisor.wiring.spec import spec_of
from advisor.wiring.stored import open_ledger, probe_ledger


def begin(asked: Asked, db: str | None, as_json_: bool, report: str | None) -> int:
    """Check everything, then open the job and run it to its end. Returns the exit code."""
    check_report(report)
    prepared = prepare(spec_of(asked))
    probe_ledger(db)
    with prepared.hold(f"a job for {prepared.spec.model}"):
        about = asyncio.run(prepared.bench.about())
        check_gpu_hours(prepared.spec, about)
        with Console(stderr=True).status("rehearsing the profile in the simulator"):
            prepared = rehearsed(prepared, about)
        with open_ledger(db) as ledger:
            job = ledger.open_job(prepared.spec, about)
            return _run(prepared, job, ledger, db, as_json_, report)


def go_on(job_id: str, db: str | None, as_json_: bool, report: str | None) -> int:
    """Take a job up where it stands; a done one is shown again. Returns the exit code."""
    with open_ledger(db, create=False) as ledger:
        job = ledger.job(job_id)
        stored = ledger.advice(job_id)
        if stored is not None:
            _print(job, stored, ledger, as_json_, report)
            return stored.outcome.exit_code
        prepared = prepare(job.spec)
        with prepared.hold(f"job {job_id}"):
            ledger.claim(job_id)
            return _run(prepared, job, ledger, db, as_json_, report)


def _run(
    prepared: Prepared,
    job: Job,
    ledger: SqlLedger,
    db: str | None,
    as_json_: bool,
    report: str | None,
) -> int:
    measured = baseline_of(ledger.trials(job.id))
    baseline = None if measured is None else measured.setting
    watch = StderrWatch(Console(stderr=True, highlight=False, soft_wrap=True), baseline)
    try:
        watch.job_opened(job, prepared.most_launches)
        advice = asyncio.run(run(prepared, job, ledger, watch))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {resume_command(job.id, db)}") from None
    except LeaseLost:
        raise  # whoever has the job now goes on with it
    except LedgerError as exc:
        raise LedgerError(_with_way_on(exc, job, db)) from exc
    except EngineError as exc:
        raise EngineError(_with_way_on(exc, job, db)) from exc
    finally:
        watch.close()
    _print(ledger.job(job.id), advice, ledger, as_json_, report)
    return advice.outcome.exit_code


def _with_way_on(exc: AdvisorError, job: Job, db: str | None) -> str:
    return f"{exc}; once that is remedied, go on with: {resume_command(job.id, db)}"


def _print(
    job: Job, advice: Advice, ledger: SqlLedger, as_json_: bool, report: str | None
) -> None:
    trials, why = ledger.trials(job.id), explained(ledger, job, advice)
    if report is not None:
        write_report(Path(report), job, trials, advice, why)
    if as_json_:
        typer.echo(json.dumps(as_json(job, advice), allow_nan=False))
        return
    console = stdout_console()
    console.print(trials_table(job, trials))
    print_advice(console, job, advice)
    print_explanation(console, job, advice, why)
    print_played(console, ledger.played(job.id), job.targets)
