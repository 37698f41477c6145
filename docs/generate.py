"""Writes docs/cli.md from the commands themselves, docs/failures.md from the tables of reasons,
docs/faults.md from the stand-in's table of faults, docs/metrics.md from the definitions.

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

from advisor.cli import build
from advisor.engine.texts import TABLE
from advisor.measure.definitions import DEFINITIONS
from advisor.standin.faults import TABLE as FAULTS
from advisor.standin.faults import Entry, Takes
from advisor.terms.reasons import RULES, Effect, Reason, Rule, Seen

DOCS = Path(__file__).resolve().parent

_HEAD = """\
<!-- Written by docs/generate.py from the program's own help; change that, then `make docs`. -->
# The command line

Results go to stdout, progress and errors to stderr. `--json` prints one JSON object on stdout and
nothing else there. An error is one line that names the field, the value and what is accepted.
"""


def pages() -> dict[Path, str]:
    """Every generated file with what it should hold."""
    return {
        DOCS / "cli.md": cli_page(),
        DOCS / "failures.md": failures_page(),
        DOCS / "faults.md": faults_page(),
        DOCS / "metrics.md": metrics_page(),
    }


_FAILURES = """\
<!-- Written by docs/generate.py from the tables of reasons; change those, then `make docs`. -->
# When a launch fails

A launch that fails is a result of its trial, with one of these reasons, the line that shows it,
an excerpt of the log, and the amounts that the log tells. `advisor trials JOB --json` has all of
them. What nobody knows is `unclassified`, with its excerpt; it is never guessed. vLLM's last words
"Engine core initialization failed" are a wrapper and never a reason.

What follows from a reason:

- **infeasible**: the setting cannot run here. The search learns from it, by how far it was off,
  and leaves out settings that must fail in the same way.
- **failed**: it says nothing about the setting. The search is not told; the launch is tried again
  as often as the table says, and each try counts as a launch. Five failures in a row block the
  job.
- **blocks**: this machine allows no further launch. The job ends, exit code 6.
"""


def failures_page() -> str:
    """Every reason with what it means, what follows and what to do."""
    rows: list[tuple[str, ...]] = [
        (f"[`{reason}`](#{reason})", _effect(rule), rule.meaning) for reason, rule in RULES.items()
    ]
    overview = _table(("reason", "what follows", "what it means"), rows)
    return "\n".join([_FAILURES, overview, *(_reason(r, rule) for r, rule in RULES.items())])


def _reason(reason: Reason, rule: Rule) -> str:
    stages = dict.fromkeys(row.stage for row in TABLE if row.reason is reason)
    at = f"- Stage: {', '.join(stages)}.\n" if stages else ""
    seen = "Seen" if rule.seen is not Seen.NEVER else "The text is from vLLM's source; seen"
    return (
        f"## {reason}\n\n- What it means: {rule.meaning}.\n"
        f"- What to do: {rule.hint}.\n- What follows: {_effect(rule)}.\n"
        f"{at}- {seen} {rule.seen}.\n"
    )


def _effect(rule: Rule) -> str:
    if rule.effect is not Effect.FAILED:
        return str(rule.effect)
    return f"{rule.effect}, {'tried again once' if rule.retries == 1 else 'not tried again'}"


_FAULTS = """\
<!-- Written by docs/generate.py from advisor/standin/faults.py; change that, then `make docs`. -->
# Faults of the stand-in

`vllm-sim serve --sim-fault NAME[:ARG]` starts a server that does something wrong, as real servers
do, to try out whoever starts, watches or measures it. The flag may be given several times, or with
several names and commas between them; `none` is no fault.

A reason says how a launch on it [must be found to have failed](failures.md). Where there is none
the server serves: its trial is measured, and what was wrong shows in what was measured.

Memory is held on a GPU that a file stands for, named by the environment variable
`ADVISOR_FAKE_DEVICE`; without one there is nothing that could stay taken. An empty file is a free
GPU: `: > gpu.jsonl; export ADVISOR_FAKE_DEVICE=$PWD/gpu.jsonl`. Servers write into it what they
hold; empty it again after `not_released`. Several files with colons between them are GPUs 0, 1, …
"""


_METRICS = """\
<!-- Written by docs/generate.py from the definitions; change those, then `make docs`. -->
# What each metric means

All are taken over the counted requests of a replay, which are followed to their end. A request
that failed counts as infinitely late in TTFT, TPOT and E2E, and as an infinite gap for each token
that it still owed. `--report` prints this table too.
"""


def metrics_page() -> str:
    """Every metric with its unit, its formula and what other tools mean by its name."""
    rows: list[tuple[str, ...]] = [
        (_code(each.metric), each.unit, each.formula, each.elsewhere) for each in DEFINITIONS
    ]
    headings = ("metric", "unit", "from what to what", "elsewhere")
    return "\n".join([_METRICS, _table(headings, rows)])


def faults_page() -> str:
    """Every fault with what it does, what it takes and what must come of it."""
    rows: list[tuple[str, ...]] = [
        (_code(fault), f"{entry.does}{_takes(entry)}", _reason_link(entry.reason))
        for fault, entry in FAULTS.items()
    ]
    return "\n".join([_FAULTS, _table(("name", "what the server does", "reason"), rows)])


def _takes(entry: Entry) -> str:
    if entry.takes is Takes.NOTHING:
        return ""
    return f"; takes {entry.takes}, default `{entry.default}`"


def _reason_link(reason: Reason | None) -> str:
    return "" if reason is None else f"[`{reason}`](failures.md#{reason})"


def cli_page() -> str:
    """All commands in the order of `--help`, as Markdown; the terminal's width plays no part."""
    sections = [_section(path, command) for path, command in walk(command_tree(), ("advisor",))]
    return "\n".join([_HEAD, *sections])


def command_tree() -> Any:
    """The root command; Typer carries its own click, whose classes have no public names."""
    return typer.main.get_command(build())


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
        rows: list[tuple[str, ...]] = [
            (f"[`{' '.join(w)}`](#{'-'.join(w)})", _first_line(c)) for w, c in children
        ]
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


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads)]
    lines += [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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
