"""The command line: thin doors over the rooms, one line and an exit code for every error."""

import signal
import sys
from importlib import import_module

import typer
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from rich.console import Console

from advisor.cli.options import Interrupted
from advisor.terms.errors import AdvisorError, Blocked, EngineError, InputError, LedgerError

EXIT_INTERNAL, EXIT_INPUT, EXIT_BLOCKED, EXIT_INTERRUPTED = 1, 2, 6, 130

#: Command -> the module here that has it. Only the one that was asked for is imported, so that
#: no command waits for what another one needs.
_COMMANDS = {
    "recommend": "recommend",
    "jobs": "jobs",
    "show": "jobs",
    "trials": "jobs",
    "what-if": "what_if",
    "simulate": "simulate",
    "report": "report",
    "export": "export",
    "doctor": "doctor",
}
#: Groups of commands, each an `app` of its own.
_GROUPS = ("profile", "db")


def build(asked: str | None = None) -> typer.Typer:
    """The commands: all of them, or the one alone that was asked for where there is such a one."""
    app = typer.Typer(
        name="advisor",
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    alone = asked in _COMMANDS or asked in _GROUPS
    for name, module in _COMMANDS.items():
        if not alone or name == asked:
            command = getattr(import_module(f"advisor.cli.{module}"), name.replace("-", "_"))
            app.command(name)(command)
    for name in _GROUPS:
        if not alone or name == asked:
            app.add_typer(import_module(f"advisor.cli.{name}").app, name=name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        # late: reading the package's metadata takes a while
        from advisor import __version__

        typer.echo(__version__)
        raise typer.Exit


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
      2    bad input, or a database, folder or engine that cannot be used
      3    no setting tried meets the targets
      4    not proven, nothing may be rolled out on this evidence
      6    blocked: this machine allows no (further) launch
      130  interrupted; go on with: advisor recommend --resume JOB
    """


def main() -> None:
    """Entry point of the `advisor` command; never ends in a traceback for a user's error."""
    _end_like_ctrl_c()
    sys.exit(run(sys.argv[1:]))


def _end_like_ctrl_c() -> None:
    """A service manager or a closed terminal ends a job as Ctrl-C does: servers first.

    Left to their defaults these signals end this process at once and leave its servers behind;
    and a shell starts background commands with Ctrl-C ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        app = build(argv[0] if argv else None)
        code: int | None = app(args=argv or ["--help"], prog_name="advisor", standalone_mode=False)
    except typer.TyperException as exc:
        text, code = _with_value(exc), EXIT_INPUT
    except (InputError, LedgerError, EngineError) as exc:
        text, code = str(exc), EXIT_INPUT
    except Blocked as exc:
        text, code = f"blocked: {exc}", EXIT_BLOCKED
    except AdvisorError as exc:
        text, code = f"internal error: {exc}", EXIT_INTERNAL
    except Interrupted as exc:
        text, code = str(exc), EXIT_INTERRUPTED
    else:
        # Typer turns a Ctrl-C that no command caught into this code
        if code != EXIT_INTERRUPTED:
            return code or 0
        text = "interrupted"
    errors.print(f"advisor: {one_line(text)}")
    return code


#: Why a word could not be read -> what would be.
_EXPECTED = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}


def _with_value(exc: typer.TyperException) -> str:
    """Typer's text names the option, but not the value it could not read, and words the rest as
    the validator's."""
    cause = exc.__cause__
    if not isinstance(exc, typer.BadParameter) or not isinstance(cause, ValidationError):
        return exc.format_message()
    name = exc.format_message().partition("'")[2].partition("'")[0]
    return "; ".join(f"{name} is {_expected(error)}" for error in cause.errors())


def _expected(error: ErrorDetails) -> str:
    """The value, and what would do; a choice tells that itself."""
    context = error.get("ctx", {})
    words = str(context.get("error", error["msg"])).rstrip(".")
    _, _, choices = words.partition(" is not one of ")
    known = _EXPECTED.get(error["type"])
    if choices:
        words = f"one of {choices}"
    elif known is not None:
        words = known.format_map(context)
    return f"{error['input']!r}; expected {words}"


def one_line(text: str) -> str:
    """Errors are one line, whatever a library put into theirs."""
    return " ".join(text.split())
