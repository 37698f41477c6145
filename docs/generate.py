"""Writes docs/cli.md from the commands themselves.

python docs/generate.py           writes what is stale
python docs/generate.py --check   writes nothing; exits with 1 and one line for each stale file
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from advisor.cli import app

DOCS = Path(__file__).resolve().parent

_HEAD = """\
<!-- Written by docs/generate.py from the program's own help; change that, then `make docs`. -->
# The command line

Results go to stdout, progress and errors to stderr. `--json` prints one JSON object on stdout and
nothing else there. An error is one line that names the field, the value and what is accepted.
"""


def pages() -> dict[Path, str]:
    """Every generated file with what it should hold."""
    return {DOCS / "cli.md": cli_page()}


def cli_page() -> str:
    """All commands in the order of `--help`, as Markdown; the terminal's width plays no part."""
    sections = [_section(path, command) for path, command in walk(command_tree(), ("advisor",))]
    return "\n".join([_HEAD, *sections])


def command_tree() -> Any:
    """The root command; Typer carries its own click, whose classes have no public names."""
    return typer.main.get_command(app)


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(words, command) of a command and of all below it, those that are hidden left out."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from walk(child, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    group = hasattr(command, "commands")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = [*path, *(["[OPTIONS]"] if options else [])]
    usage += [*(["COMMAND"] if group else []), *map(_value, arguments)]
    parts = [f"{'#' * min(len(path) + 1, 3)} {' '.join(path)}\n\n{_prose(command.help)}"]
    parts.append(f"    {' '.join(usage)}\n")
    if group:
        children = [(words, each) for words, each in walk(command, path) if len(words) > len(path)]
        rows = [(f"[`{' '.join(w)}`](#{'-'.join(w)})", _first_line(c)) for w, c in children]
        parts.append(_table(("command", "what it does"), rows))
    elif arguments:
        parts.append(
            _table(("argument", "meaning"), [(_code(_value(p)), p.help) for p in arguments])
        )
    if options:
        rows = [(_code(_spelling(p)), _meaning(p)) for p in options]
        parts.append(_table(("option", "meaning"), rows))
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Paragraphs joined to one line each; what stands after a \\b keeps its lines, as code."""
    found = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        mark, _, rest = paragraph.partition("\n")
        if mark != "\b":
            found.append(" ".join(paragraph.split()))
            continue
        title, _, block = rest.partition("\n")
        found.append(f"{title}\n\n```\n{textwrap.dedent(block).rstrip()}\n```")
    return "\n\n".join(found) + "\n"


def _first_line(command: Any) -> str:
    return " ".join(inspect.cleandoc(command.help).split("\n\n")[0].split())


def _value(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _spelling(option: Any) -> str:
    words = "/".join((*option.opts, *option.secondary_opts))
    return words if option.is_flag else f"{words} {_value(option)}"


def _meaning(option: Any) -> str:
    needed = " **Needed.**" if option.required else ""
    plain = option.is_flag or option.default is None or option.default == ""
    default = "" if plain else f" Default: `{option.default}`."
    return f"{option.help}{needed}{default}"


def _code(text: str) -> str:
    return f"`{text}`"


def _table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [heads, ("---", "---"), *((left, right.replace("|", "\\|")) for left, right in rows)]
    return "".join(f"| {left} | {right} |\n" for left, right in lines)


def main(argv: list[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    stale = [path for path, text in pages().items() if _read(path) != text]
    if not argv:
        for path in stale:
            path.write_text(pages()[path], encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.relative_to(DOCS.parent)} is stale; run: make docs", file=sys.stderr)
    return 1 if stale else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
