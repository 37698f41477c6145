"""`advisor doctor`: is everything here that a job needs?"""

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli.options import DbOption, JsonOption
from advisor.terms.errors import LedgerError, NotFound, ReplayError
from advisor.wiring.stored import open_ledger, probe_ledger

if TYPE_CHECKING:
    from advisor.replay.capacity import Carried

_GIB = 1024**3


def doctor(
    vllm_command: Annotated[
        str, typer.Option(metavar="COMMAND", help="What stands before `serve`; a path or words.")
    ] = "vllm",
    db: DbOption = None,
    as_json_: JsonOption = False,
) -> int:
    """Look at the vLLM command, GPUs, memory, disk and the database.

    Nothing is changed, but servers and temporary files of an Advisor that was killed are ended.
    The load generator plays rising loads against a server of its own for up to a quarter of a
    minute; up to which rate it saw that server's times truly is what it carries here.
    Exit code 0 when a job could run on a real vLLM, 6 when something is in the way. The
    simulator needs only the database.

    \b
    Example:
      advisor doctor --vllm-command ~/vllm/bin/vllm
    """
    # late, as it brings an HTTP client: commands that only read the database start sooner
    from advisor.cli.carried import carried_json, carried_lines
    from advisor.wiring.machine import examine_machine

    database = _database_problem(db)
    leftovers = _end_leftovers(db, database)
    found = asyncio.run(examine_machine(vllm_command))
    client, client_problem = try_client_or_say_why()
    problems = [text for text in (found.vllm_problem, database, client_problem) if text]
    if as_json_:
        told = {
            "database_problem": database,
            "leftovers": leftovers,
            "client": carried_json(client) if client else None,
            "problems": problems,
        }
        body = {"schema": 1, **asdict(found), **told}
        typer.echo(json.dumps(body))
        return 6 if problems else 0
    for name, value in _lines(asdict(found), database, leftovers):
        typer.echo(f"{name:10} {value}")
    for line in carried_lines(client) if client else [client_problem]:
        typer.echo(f"{'client':10} {line}")
    return 6 if problems else 0


def try_client_or_say_why() -> tuple["list[Carried]", str | None]:
    """What was tried, or why nothing was."""
    from advisor.wiring.machine import try_client

    try:
        return asyncio.run(try_client()), None
    except ReplayError as exc:
        return [], f"load generator: {exc}"


def _database_problem(db: str | None) -> str | None:
    try:
        probe_ledger(db)
    except LedgerError as exc:
        return str(exc)
    return None


def _end_leftovers(db: str | None, database: str | None) -> list[str]:
    from advisor.wiring.machine import end_leftovers_of

    if database is not None:
        return end_leftovers_of(None)
    try:
        ledger = open_ledger(db, create=False)
    except NotFound:
        return end_leftovers_of(None)
    with ledger:
        return end_leftovers_of(ledger)


def _lines(
    found: dict[str, Any], database: str | None, leftovers: list[str]
) -> list[tuple[str, str]]:
    gpus = [
        f"{gpu['name']}, {gpu['memory_free_bytes'] / _GIB:.1f} of "
        f"{gpu['memory_total_bytes'] / _GIB:.1f} GiB free, driver {gpu['driver']}"
        for gpu in found["gpus"]
    ]
    available, total = found["memory_available_bytes"], found["memory_total_bytes"]
    return [
        ("vllm", found["vllm_version"] or found["vllm_problem"]),
        ("gpus", "; ".join(gpus) or "none that nvidia-smi lists"),
        ("cpu", f"{found['cpu']}, {found['cpu_cores']} cores"),
        ("memory", f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB available"),
        ("disk", f"{found['disk_free_bytes'] / _GIB:.1f} GiB free"),
        ("database", database or "usable"),
        ("leftovers", "; ".join(leftovers) or "none"),
    ]
