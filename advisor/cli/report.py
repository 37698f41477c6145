"""The result of a job as one self-contained HTML file."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from advisor.cli.tables import print_advice, trials_table
from advisor.measure.definitions import DEFINITIONS
from advisor.terms.advice import Advice
from advisor.terms.errors import InputError
from advisor.terms.job import Job, Trial

_WIDTH = 180


def check_report(path: str | None) -> None:
    """Before anything is launched: an unwritable report is an error of the first second."""
    if path is None:
        return
    if not path.strip():
        raise InputError("report is empty; expected a file to write")
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"report {path}: the folder does not exist")
    if Path(path).is_dir():
        raise InputError(f"report {path}: it is a folder, expected a file to write")


def write_report(path: Path, job: Job, trials: Sequence[Trial], advice: Advice) -> None:
    """What the terminal shows, with its colours, and what each metric means; no script, no
    outside address."""
    console = Console(record=True, width=_WIDTH, file=StringIO(), force_terminal=True)
    console.print(trials_table(job, trials))
    print_advice(console, job, advice)
    console.print(_definitions())
    page = console.export_html(inline_styles=True)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as exc:
        raise InputError(f"report {path}: cannot be written: {exc.strerror}") from exc


def _definitions() -> Table:
    """Names of metrics mean other things in other tools: what they mean here."""
    table = Table(title="What is measured", box=box.SIMPLE_HEAD)
    for heading in ("metric", "unit", "from what to what", "elsewhere"):
        table.add_column(heading, overflow="fold")
    for each in DEFINITIONS:
        table.add_row(str(each.metric), each.unit, each.formula, each.elsewhere)
    return table
