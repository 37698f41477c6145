"""`advisor export`: what happened to every request of a job, for other programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.jobs import JobArgument
from advisor.cli.options import DbOption, ForceOption, refuse_existing
from advisor.report.export import ExportFormat, write_parquet, write_text
from advisor.terms.errors import InputError
from advisor.wiring.stored import exported_replays, open_ledger


def export(
    job_id: JobArgument,
    format_: Annotated[
        ExportFormat,
        typer.Option("--format", help="One row a request; vllm-bench: one object a replay."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write. Default: stdout; not for parquet."),
    ] = None,
    force: ForceOption = False,
    db: DbOption = None,
) -> None:
    """Write every replay of a job, void ones too, for other programs.

    csv has a row for each request; jsonl and parquet add the time and tokens of each event;
    vllm-bench has an object for each replay in the field names of `vllm bench serve`, with its
    meanings: latencies from the real send time, completed requests only.

    \b
    Example:
      advisor export 1f0c9a2b --format csv --out requests.csv
    """
    if out is None and format_ is ExportFormat.PARQUET:
        raise InputError(
            "out is missing; format parquet needs a file, e.g. --out requests.parquet"
        )
    if out is not None:
        refuse_existing(out, force=force)
    with open_ledger(db, create=False) as ledger:
        job = ledger.job(job_id)
        replays = exported_replays(ledger, job)
        if out is None:
            write_text(sys.stdout, format_, job, replays)
            return
        try:
            if format_ is ExportFormat.PARQUET:
                write_parquet(out, replays)
            else:
                with out.open("w", encoding="utf-8", newline="") as file:
                    write_text(file, format_, job, replays)
        except OSError as exc:
            raise InputError(f"out {out}: cannot be written: {exc.strerror or exc}") from exc
