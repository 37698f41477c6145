"""`advisor what-if`: other targets, the same replays, no launch."""

import json
from typing import Annotated

import typer

from advisor.advice.as_json import as_json
from advisor.cli.jobs import JobArgument
from advisor.cli.options import DbOption, JsonOption
from advisor.cli.tables import print_advice, stdout_console, trials_table
from advisor.terms.errors import InputError
from advisor.wiring.stored import judge_again, open_ledger


def what_if(
    job_id: JobArgument,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help="As in `recommend`, in ms, s or %. Repeat."),
    ] = None,
    db: DbOption = None,
    as_json_: JsonOption = False,
) -> int:
    """Judge a job's stored replays against other targets; nothing is launched or changed.

    \b
    Example:
      advisor what-if 1f0c9a2b --target 'ttft:p95<=500ms' --target 'itl:p99<=30ms'
    """
    if not target:
        raise InputError("target is missing; give at least one, e.g. --target 'itl:p99<=30ms'")
    with open_ledger(db, create=False) as ledger:
        job, trials, advice = judge_again(ledger, job_id, target)
    if as_json_:
        body = {**as_json(job, advice), "what_if": True}
        typer.echo(json.dumps(body, allow_nan=False))
    else:
        console = stdout_console()
        console.print(trials_table(job, trials))
        print_advice(console, job, advice)
    return advice.outcome.exit_code
