"""Options that several commands share."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from advisor.terms.errors import InputError

DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database, e.g. sqlite:///advisor.db. Default: $ADVISOR_DB, else a file in the "
        "user's data folder.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")
]

ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raise InputError for what `--out` would replace; a pipe or a device is only written to."""
    if not force and (out.is_file() or out.is_dir()):
        raise InputError(f"--out {out}: it is there already; expected a new name or --force")


def resume_command(job_id: str, db: str | None) -> str:
    """What to type to go on with a job of this database."""
    words = ["advisor", "recommend", "--resume", job_id, *(() if db is None else ("--db", db))]
    return shlex.join(words)


class Interrupted(Exception):
    """Ctrl-C; the text says how to go on."""
