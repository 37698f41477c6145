"""Options that several commands share."""

import shlex
from typing import Annotated

import typer

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


def resume_command(job_id: str, db: str | None) -> str:
    """What to type to go on with a job of this database."""
    words = ["advisor", "recommend", "--resume", job_id, *(() if db is None else ("--db", db))]
    return shlex.join(words)


class Interrupted(Exception):
    """Ctrl-C; the text says how to go on."""
