"""`advisor db`: the database's schema."""

import json

import typer

from advisor.cli.options import DbOption, JsonOption
from advisor.store.database import SchemaAge, check, refuse_unfit, upgrade
from advisor.store.location import default_url, parse_url
from advisor.terms.errors import SchemaMismatch

app = typer.Typer(help="Look at the database's schema, or bring it up to date.")


@app.command("upgrade")
def upgrade_command(db: DbOption = None) -> None:
    """Bring the database to this program's schema; creates it where there is none.

    \b
    Example:
      advisor db upgrade --db sqlite:///advisor.db
    """
    url = db or default_url()
    upgrade(url)
    typer.echo(f"{_shown(url)}: schema {check(url).found}", err=True)


@app.command("check")
def check_command(db: DbOption = None, as_json_: JsonOption = False) -> int:
    """Exit with 0 when the schema is this program's, else with 2; changes nothing.

    \b
    Example:
      advisor db check --json
    """
    url = db or default_url()
    state = check(url)
    if as_json_:
        report = {
            "schema": 1,
            "database": _shown(url),
            "state": state.age.value,
            "found": state.found,
            "expected": state.expected,
        }
        typer.echo(json.dumps(report, allow_nan=False))
        return 0 if state.age is SchemaAge.CURRENT else 2
    refuse_unfit(url, state)
    if state.age is SchemaAge.FRESH:
        shown = _shown(url)
        raise SchemaMismatch(f"database {shown} is empty; run: advisor db upgrade --db {shown}")
    typer.echo(f"{_shown(url)}: schema {state.found}", err=True)
    return 0


def _shown(url: str) -> str:
    return parse_url(url).render_as_string()
