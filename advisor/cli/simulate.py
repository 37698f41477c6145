"""`advisor simulate`: one setting on the simulator, measured, with its timeline."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from advisor.advice.as_json import measurement_json
from advisor.cli.options import JsonOption
from advisor.wiring.simulate import Simulated, simulate_profile


def simulate(
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="A model that the simulator knows, or a config.json."),
    ],
    profile: Annotated[
        str, typer.Option(metavar="FILE", help="Recorded load, or the name of a shipped profile.")
    ],
    hardware: Annotated[
        str, typer.Option(metavar="NAME", help="Device to simulate, e.g. h100-sxm.")
    ],
    flags: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- FLAGS", help="`vllm serve` flags of the setting, after --."),
    ] = None,
    load: Annotated[float, typer.Option(metavar="X", help="Multiple of the recorded load.")] = 1.0,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Which launch: its drift and its noise.", min=0)
    ] = 0,
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write every step: a plot as .html, a table as .parquet.",
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Play a whole recorded load against one simulated setting, from a cold start.

    \b
    Example:
      advisor simulate --model llama-3.1-8b --hardware h100-sxm \\
        --profile chat-and-documents -- --max-num-batched-tokens 512
    """
    # Imported late: plots and tables are needed by few.
    if timeline is not None:
        from advisor.report.timeline import check_timeline, write_timeline

        check_timeline(timeline)
    done = simulate_profile(model, profile, hardware, shlex.join(flags or []), load, seed)
    if timeline is not None:
        title = f"{shlex.join(done.setting.argv())} on {hardware}, simulated"
        write_timeline(timeline, done.run.timeline, title)
    typer.echo(json.dumps(_object(done)) if json_ else "\n".join(_lines(done)))


def _object(done: Simulated) -> dict[str, object]:
    return {
        "schema": 1,
        "simulated": True,
        "setting": dict(done.setting.flags),
        "resolved": done.config.resolved_flags(),
        "kv_cache_tokens": done.config.kv_cache_tokens,
        "steps": len(done.run.timeline),
        "facts": asdict(done.run.facts),
        **measurement_json(done.measurement),
    }


def _lines(done: Simulated) -> list[str]:
    measured, facts = done.measurement, done.run.facts
    lines = [f"{'simulated':<12}{'p50':>12}{'p95':>12}{'p99':>12}"]
    for each in measured.percentiles:
        shown = (each.p50_ms, each.p95_ms, each.p99_ms)
        lines.append(f"{each.metric:<12}" + "".join(f"{ms:>9.1f} ms" for ms in shown))
    return [
        *lines,
        f"output {measured.output_tokens_per_s:.0f} tokens/s; {measured.requests} requests, "
        f"{100 * measured.error_rate:.2f} % failed",
        f"most running {facts.running_max:.0f}, waiting {facts.waiting_max:.0f}, KV cache in use "
        f"{100 * (facts.kv_cache_usage_max or 0):.0f} % of {done.config.kv_cache_tokens} tokens; "
        f"preemptions {facts.preemptions:.0f}",
    ]
