"""Options that several commands share."""

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
