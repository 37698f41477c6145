"""The command line: thin doors over the rooms, one line and an exit code for every error."""

import sys

import click
import typer
from rich.console import Console

from advisor import __version__
from advisor.cli import db, doctor, jobs, profile, recommend, what_if
from advisor.terms.errors import AdvisorError, Blocked, InputError, LedgerError

EXIT_INTERNAL, EXIT_INPUT, EXIT_BLOCKED, EXIT_INTERRUPTED = 1, 2, 6, 130

app = typer.Typer(
    name="advisor",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("recommend")(recommend.recommend)
app.command("jobs")(jobs.jobs)
app.command("show")(jobs.show)
app.command("trials")(jobs.trials)
app.command("what-if")(what_if.what_if)
app.command("doctor")(doctor.doctor)
app.add_typer(profile.app, name="profile")
app.add_typer(db.app, name="db")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Find the `vllm serve` setting that meets your latency targets, and prove it.

    \b
    Exit codes:
      0    done; of recommend and what-if: the advice is proven
      1    internal error
      2    bad input, or a database that cannot be used
      3    no setting tried meets the targets
      4    not proven, nothing may be rolled out on this evidence
      6    blocked: this machine allows no (further) launch
      130  interrupted; go on with: advisor recommend --resume JOB
    """


def main() -> None:
    """Entry point of the `advisor` command; never ends in a traceback for a user's error."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        code = app(args=argv, prog_name="advisor", standalone_mode=False)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.ClickException as exc:
        errors.print(f"advisor: {one_line(exc.format_message())}")
        return EXIT_INPUT
    except (InputError, LedgerError) as exc:
        errors.print(f"advisor: {one_line(str(exc))}")
        return EXIT_INPUT
    except Blocked as exc:
        errors.print(f"advisor: blocked: {one_line(str(exc))}")
        return EXIT_BLOCKED
    except AdvisorError as exc:
        errors.print(f"advisor: internal error: {one_line(str(exc))}")
        return EXIT_INTERNAL
    except (KeyboardInterrupt, click.Abort):
        errors.print("advisor: interrupted")
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def one_line(text: str) -> str:
    """Errors are one line, whatever a library put into theirs."""
    return " ".join(text.split())
