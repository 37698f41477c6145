"""`advisor profile …`: bring in, look at, cut, rescale and make recorded loads."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.options import ForceOption, refuse_existing
from advisor.profile.importers import import_azure, import_mooncake
from advisor.profile.inspect import ProfileFacts, Quantiles, inspect
from advisor.profile.load import load_profile
from advisor.profile.rescale import cut, rescale
from advisor.profile.reshape import cap_gaps, ramp, redraw, without_pauses
from advisor.profile.shipped import resolve
from advisor.profile.sidecar import Table, sidecar_path
from advisor.profile.synth import synthesise
from advisor.profile.write import write_profile
from advisor.terms.errors import InputError
from advisor.terms.profile import Profile

app = typer.Typer(help="Bring in, look at, cut, rescale and make recorded loads.")


class TraceKind(StrEnum):
    """Public trace formats that can be read."""

    AZURE = "azure"
    MOONCAKE = "mooncake"


File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A profile file, or the name of a shipped profile."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File to write; NAME.jsonl here when not given."),
]


@app.command("import")
def import_(
    kind: Annotated[TraceKind, typer.Argument(metavar="FORMAT", help="azure or mooncake.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The trace's file.")],
    out: Out = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of times that are spread inside a coarse tick.")
    ] = 0,
    force: ForceOption = False,
) -> None:
    """Make a profile of a public trace.

    \b
    Example:
      advisor profile import azure AzureLLMInferenceTrace_conv.csv --out azure.jsonl
    """
    imported = import_azure(file) if kind is TraceKind.AZURE else import_mooncake(file, seed)
    for name, table in imported.tables.items():
        typer.echo(f"{name}: {', '.join(f'{k} {v}' for k, v in table.items())}", err=True)
    _write(imported.profile, out, force, imported.tables)


@app.command("inspect")
def inspect_(
    file: File,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show rate, burstiness, lengths and how much of the prompts is shared.

    \b
    Example:
      advisor profile inspect chat-and-documents
    """
    facts = inspect(load_profile(resolve(file)))
    typer.echo(json.dumps(asdict(facts)) if json_ else "\n".join(_lines(facts)))


@app.command()
def window(
    file: File,
    start: Annotated[float, typer.Option(metavar="S", help="Seconds after the first request.")],
    end: Annotated[
        float, typer.Option(metavar="S", help="Seconds after the first request, not included.")
    ],
    out: Out = None,
    force: ForceOption = False,
) -> None:
    """Cut a part out of a profile.

    \b
    Example:
      advisor profile window azure.jsonl --start 600 --end 1200 --out ten-minutes.jsonl
    """
    _write(cut(load_profile(resolve(file)), start, end), out, force)


@app.command("rescale")
def rescale_(
    file: File,
    input_: Annotated[
        float, typer.Option("--input", metavar="X", help="Factor on prompt lengths.")
    ] = 1.0,
    output: Annotated[float, typer.Option(metavar="X", help="Factor on output lengths.")] = 1.0,
    out: Out = None,
    force: ForceOption = False,
) -> None:
    """Make prompts and answers longer or shorter.

    \b
    Example:
      advisor profile rescale azure.jsonl --input 0.5 --output 2 --out other.jsonl
    """
    _write(rescale(load_profile(resolve(file)), input=input_, output=output), out, force)


@app.command()
def arrivals(
    file: File,
    most_gap: Annotated[
        float | None,
        typer.Option(metavar="S", help="Cut idle time between two arrivals to this many seconds."),
    ] = None,
    cv: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Draw the arrivals anew, with gaps whose standard deviation is X times their "
            "mean (gamma distributed): 1 is Poisson, above it they come in bursts.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="RPS", help="With --cv: requests/s; the recorded rate if not given."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="With --cv; default 0.")] = None,
    ramp_: Annotated[
        float | None,
        typer.Option(
            "--ramp", metavar="X", help="Let the rate rise evenly to X times what it begins with."
        ),
    ] = None,
    no_pauses: Annotated[
        bool,
        typer.Option("--no-pauses", help="Let turns come at their timestamps."),
    ] = False,
    out: Out = None,
    force: ForceOption = False,
) -> None:
    """Give a profile's requests other arrivals; their lengths and shared blocks stay.

    \b
    Example:
      advisor profile arrivals azure.jsonl --most-gap 10 --out without-nights.jsonl
      advisor profile arrivals azure.jsonl --cv 1 --rate 4 --out poisson.jsonl

    Options apply in the order in which they stand below. A conversation moves as a whole: the
    times between its turns stay, but for idle time that is cut.
    """
    if cv is None and (rate is not None or seed is not None):
        given = f"--rate {rate:g}" if rate is not None else f"--seed {seed}"
        raise InputError(f"{given} is given without --cv, which draws the arrivals")
    if most_gap is None and cv is None and ramp_ is None and not no_pauses:
        raise InputError("nothing to change; give --most-gap, --cv, --ramp or --no-pauses")
    profile = load_profile(resolve(file))
    if most_gap is not None:
        profile = cap_gaps(profile, most_gap)
    if cv is not None:
        profile = redraw(profile, cv=cv, rate_rps=rate, seed=seed or 0)
    if ramp_ is not None:
        profile = ramp(profile, ramp_)
    _write(without_pauses(profile) if no_pauses else profile, out, force)


@app.command()
def synth(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a shipped profile.")],
    out: Out = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Another load of the same kind; the shipped one has 1, as when not given.",
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Make a shipped profile again, or another of its kind.

    \b
    Example:
      advisor profile synth tiny-cpu --seed 7 --out tiny-7.jsonl
    """
    _write(synthesise(name, seed), out, force)


def _write(
    profile: Profile, out: Path | None, force: bool, tables: Mapping[str, Table] | None = None
) -> None:
    path = out or Path(f"{profile.name}.jsonl")
    for target in (path, sidecar_path(path)):
        refuse_existing(target, force=force)
    written = write_profile(profile, path, tables)
    for reason, rows in written.dropped:
        typer.echo(f"dropped {rows} rows where {reason}", err=True)
    typer.echo(f"{path}: {len(written.requests)} requests, sha256 {written.sha256}", err=True)
    typer.echo(str(path))


def _lines(facts: ProfileFacts) -> list[str]:
    pairs = [
        ("profile", facts.name),
        ("sha256", facts.sha256),
        ("requests", f"{facts.requests}"),
        ("duration", f"{facts.duration_s:.1f} s"),
        ("rate", _number(facts.rate_rps, ".2f", " requests/s")),
        ("dispersion at 1 s", f"{facts.dispersion_1s:.2f} (1 is Poisson, more is bursty)"),
        ("prompt tokens", _quantiles(facts.input_tokens)),
        ("output tokens", _quantiles(facts.output_tokens)),
        ("prompt load", _number(facts.prompt_tokens_per_s, ".0f", " tokens/s")),
        ("sessions", _number(facts.sessions, "d", "")),
        ("infinite cache hits", _number(facts.infinite_cache_hit_share, ".1%", " of tokens")),
    ]
    pairs += [("dropped", f"{rows} rows where {reason}") for reason, rows in facts.dropped]
    width = max(len(label) for label, _ in pairs)
    return [f"{label:<{width}}  {text}" for label, text in pairs]


def _number(value: float | None, format_: str, unit: str) -> str:
    return "not known" if value is None else f"{value:{format_}}{unit}"


def _quantiles(q: Quantiles) -> str:
    return f"p50 {q.p50}, p90 {q.p90}, p99 {q.p99}, max {q.max}"
