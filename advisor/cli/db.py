"""`advisor db`: the database's schema."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from advisor.store.database import SchemaAge, check, refuse_unfit, upgrade
from advisor.store.location import default_url, parse_url
from advisor.terms.errors import SchemaMismatch

app = typer.Typer(help="Look at the database's schema, or bring it up to date.")

_Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database, e.g. sqlite:///advisor.db; default: $ADVISOR_DB, else the user's own.",
    ),
]


@app.command("upgrade")
def upgrade_command(db: _Db = None) -> None:
    """Bring the database to this program's schema; creates it where there is none."""
    url = db or default_url()
    upgrade(url)
    typer.echo(f"{_shown(url)}: schema {check(url).expected}", err=True)


@app.command("check")
def check_command(
    db: _Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Exit with 0 when the schema is this program's, else with 2; changes nothing."""
    url = db or default_url()
    state = check(url)
    if as_json:
        typer.echo(json.dumps({"schema": 1, "database": _shown(url), **asdict(state)}))
        raise typer.Exit(0 if state.age is SchemaAge.CURRENT else 2)
    refuse_unfit(url, state)
    if state.age is SchemaAge.FRESH:
        shown = _shown(url)
        raise SchemaMismatch(f"database {shown} is empty; run: advisor db upgrade --db {shown}")
    typer.echo(f"{_shown(url)}: schema {state.found}, as this program needs", err=True)


def _shown(url: str) -> str:
    return parse_url(url).render_as_string()
