"""`advisor jobs`, `show` and `trials`: what the ledger holds."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from advisor.advice.as_json import as_json, measurement_json
from advisor.advice.explanation_json import explanation_json
from advisor.cli.explained import print_explanation
from advisor.cli.options import DbOption, JsonOption, resume_command
from advisor.cli.played import played_json, print_played
from advisor.cli.tables import print_advice, stdout_console, trials_table
from advisor.replay.audit import gates_line
from advisor.store.rows import Played
from advisor.terms.advice import Advice
from advisor.terms.job import Job, Trial
from advisor.wiring.explained import explained
from advisor.wiring.stored import open_ledger, trials_now

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, from `jobs`.")]


def jobs(db: DbOption = None, as_json_: JsonOption = False) -> None:
    """List the jobs in the database, newest first.

    \b
    Example:
      advisor jobs --json
    """
    with open_ledger(db, create=False) as ledger:
        listed = [
            (job, ledger.advice(job.id), ledger.is_abandoned(job.id)) for job in ledger.jobs()
        ]
    rows = [_job_json(job, advice, abandoned) for job, advice, abandoned in listed]
    if as_json_:
        typer.echo(json.dumps({"schema": 1, "jobs": rows}, allow_nan=False))
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("job", "created", "state", "outcome", "model", "engine", "targets"):
        table.add_column(heading)
    for row in rows:
        engine = f"{row['engine']}{' (simulated)' if row['simulated'] else ''}"
        targets = ", ".join(row["targets"])
        outcome = row["outcome"] or ""
        state = row["state"] + (", nobody works on it: go on with --resume" * row["abandoned"])
        table.add_row(row["job"], row["created_at"], state, outcome, row["model"], engine, targets)
    stdout_console().print(table)


def _job_json(job: Job, advice: Advice | None, abandoned: bool) -> dict[str, Any]:
    return {
        "job": job.id,
        "created_at": job.created_at,
        "state": job.state,
        "abandoned": abandoned,
        "outcome": None if advice is None else str(advice.outcome),
        "model": job.spec.model,
        "engine": job.engine.kind,
        "hardware": job.engine.hardware,
        "simulated": job.engine.simulated,
        "targets": [str(target) for target in job.targets],
    }


def show(job_id: JobArgument, db: DbOption = None, as_json_: JsonOption = False) -> int:
    """Show a job's advice with its evidence and what explains it, or where the job stands.

    \b
    Example:
      advisor show 1f0c9a2b --json
    """
    with open_ledger(db, create=False) as ledger:
        job, advice = ledger.job(job_id), ledger.advice(job_id)
        trials, played = ledger.trials(job_id), ledger.played(job_id)
        abandoned = ledger.is_abandoned(job_id)
        why = None if advice is None else explained(ledger, job, advice)
    if advice is None or why is None:
        outcome = {"schema": 1, **_job_json(job, None, abandoned), "trials": len(trials)}
        if as_json_:
            typer.echo(json.dumps(outcome, allow_nan=False))
        else:
            label = " (simulated)" if job.engine.simulated else ""
            nobody = "nobody works on it, " if abandoned else ""
            typer.echo(
                f"job {job.id}{label} is not finished, {len(trials)} trials so far; "
                f"{nobody}go on with: {resume_command(job.id, db)}"
            )
        return 0
    if as_json_:
        body = {**as_json(job, advice), "explanation": explanation_json(why)}
        typer.echo(json.dumps(body, allow_nan=False))
    else:
        print_advice(stdout_console(), job, advice)
        print_explanation(stdout_console(), job, advice, why)
        print_played(stdout_console(), played, job.targets)
    return 0


def trials(job_id: JobArgument, db: DbOption = None, as_json_: JsonOption = False) -> None:
    """List every trial of a job: its setting, its outcome, its measurements, and how well the
    load generator did.

    \b
    Example:
      advisor trials 1f0c9a2b --json
    """
    with open_ledger(db, create=False) as ledger:
        job, rows = ledger.job(job_id), trials_now(ledger, job_id)
        played = ledger.played(job_id)
    if as_json_:
        found = [_trial_json(trial, played.get(trial.number, [])) for trial in rows]
        simulated = job.engine.simulated
        body = {
            "schema": 1,
            "job": job.id,
            "simulated": simulated,
            "client_gates": None if job.spec.engine == "sim" else gates_line(job.targets),
            "trials": found,
        }
        typer.echo(json.dumps(body, allow_nan=False))
        return
    stdout_console().print(trials_table(job, rows))
    print_played(stdout_console(), played, job.targets)


def _trial_json(trial: Trial, played: Sequence[Played]) -> dict[str, Any]:
    result, failure, launch = trial.result, trial.result.failure, trial.result.launch
    headroom = result.headroom
    return {
        "trial": trial.number,
        "phase": str(trial.phase),
        "round": trial.round,
        "repeat": trial.repeat,
        "origin": trial.origin,
        "state": str(result.state),
        "setting": dict(trial.setting.flags),
        "variant": trial.setting.variant,
        "argv": ["vllm", "serve", *trial.setting.argv()],
        "reason": str(failure.reason) if failure else None,
        "message": failure.message if failure else result.note or None,
        "stage": failure.stage if failure else None,
        "hint": failure.rule.hint if failure else None,
        "needed": failure.needed if failure else None,
        "available": failure.available if failure else None,
        "fits_tokens": failure.fits_tokens if failure else None,
        "excerpt": failure.excerpt if failure else None,
        "resolved": dict(launch.resolved) if launch else None,
        "ignored": list(launch.ignored) if launch else None,
        "kv_cache_tokens": launch.kv_cache_tokens if launch else None,
        "cold_start_s": launch.cold_start_s if launch else None,
        "headroom": {"low": headroom.low, "high": headroom.high} if headroom else None,
        "replays": trial.replays,
        "played": [played_json(one) for one in played],
        "soak": asdict(result.soak) if result.soak else None,
        "elapsed_s": trial.elapsed_s,
        "measurements": [measurement_json(m) for m in result.measurements],
    }
