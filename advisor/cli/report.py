"""The result of a job as one self-contained HTML file."""

import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from advisor.advice.explanation import Explanation
from advisor.cli.explained import print_explanation
from advisor.cli.jobs import JobArgument
from advisor.cli.options import DbOption, ForceOption, refuse_existing
from advisor.cli.tables import print_advice, trials_table
from advisor.measure.definitions import DEFINITIONS
from advisor.report.tradeoff import trade_off_svg
from advisor.terms.advice import Advice
from advisor.terms.errors import InputError
from advisor.terms.job import Job, Trial
from advisor.wiring.explained import explained
from advisor.wiring.stored import open_ledger

_WIDTH = 180
#: What every report begins with.
_PAGE = b"<!doctype html>"


def report(
    job_id: JobArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file to write.")],
    force: ForceOption = False,
    db: DbOption = None,
) -> None:
    """Write a finished job's result and what explains it as one HTML file.

    \b
    Example:
      advisor report 1f0c9a2b --out report.html
    """
    refuse_existing(out, force=force)
    check_report(str(out), force=force)
    with open_ledger(db, create=False) as ledger:
        job, advice = ledger.job(job_id), ledger.advice(job_id)
        if advice is None:
            raise InputError(f"job {job_id} is not finished; expected one that has its advice")
        trials, why = ledger.trials(job_id), explained(ledger, job, advice)
    write_report(out, job, trials, advice, why)


def check_report(path: str | None, *, force: bool = False) -> None:
    """Before anything is launched: an unwritable report is an error of the first second. An
    earlier report is replaced, any other file only by `force`."""
    if path is None:
        return
    if not path.strip():
        raise InputError("report is empty; expected a file to write")
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"report {path}: the folder does not exist")
    if Path(path).is_dir():
        raise InputError(f"report {path}: it is a folder, expected a file to write")
    if not os.access(Path(path).absolute().parent, os.W_OK):
        raise InputError(f"report {path}: its folder cannot be written to")
    if not force and Path(path).is_file() and not _is_page(Path(path)):
        raise InputError(f"report {path}: it is there and is no report; expected a new name")


def _is_page(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PAGE)).lower() in (_PAGE, b"")
    except OSError:
        return False


def write_report(
    path: Path, job: Job, trials: Sequence[Trial], advice: Advice, why: Explanation
) -> None:
    """What the terminal shows, with its colours, what each metric means, and TTFT against ITL as
    a drawing; no script, no outside address."""
    console = Console(record=True, width=_WIDTH, file=StringIO(), force_terminal=True)
    console.print(trials_table(job, trials))
    print_advice(console, job, advice)
    print_explanation(console, job, advice, why)
    console.print(_definitions())
    page = console.export_html(inline_styles=True)
    body, end, rest = page.rpartition("</body>")
    try:
        path.write_text(f"{body}{_drawing(job, why)}\n{end}{rest}", encoding="utf-8")
    except OSError as exc:
        raise InputError(f"report {path}: cannot be written: {exc.strerror}") from exc


def _drawing(job: Job, why: Explanation) -> str:
    label = "simulated" if job.engine.simulated else "measured"
    title = (
        f"TTFT against ITL at {why.trade_off.multiple:g}x the recorded load ({label}); full: no "
        "other setting equals it in these and headroom"
    )
    return trade_off_svg(why.trade_off, job.targets, title)


def _definitions() -> Table:
    """Names of metrics mean other things in other tools: what they mean here."""
    table = Table(title="What is measured", box=box.SIMPLE_HEAD)
    for heading in ("metric", "unit", "from what to what", "elsewhere"):
        table.add_column(heading, overflow="fold")
    for each in DEFINITIONS:
        table.add_row(str(each.metric), each.unit, each.formula, each.elsewhere)
    return table
