"""`advisor recommend`: run a tuning job, or go on with one."""

import re
from typing import Annotated

import typer

from advisor.cli.options import DbOption, JsonOption
from advisor.terms.errors import InputError
from advisor.wiring.asked import Asked


def recommend(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Checkpoint for vLLM; for the simulator a built-in shape or a config.json.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The recorded load: a JSONL file, or the name of a shipped one."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="What to measure on: sim, vllm, docker, or attach: a server that runs already.",
        ),
    ] = "vllm",
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help="What must hold, e.g. 'ttft:p95<=1000ms' or 'errors<=0.1%'; 'itl:p99<=0.6x' is "
            "relative to the baseline. Metrics: ttft, itl, token_itl, tpot, e2e, errors. Repeat.",
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Device to simulate, e.g. h100-sxm; only for --engine sim."
        ),
    ] = None,
    vllm_command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="What stands before `serve`; a path or words. Default: vllm. For --engine docker "
            "the image, for --engine attach the address, e.g. http://127.0.0.1:8000.",
        ),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="FLAGS",
            help="`vllm serve` flags of the current setting, quoted; those that are no knob of "
            "the Space are the same in all trials. Their names are checked before the first "
            "launch, their values by the server that it starts. Default: vLLM's own defaults.",
        ),
    ] = "",
    space: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="TOML file of knobs, variants and rules; see docs/space.md."
        ),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How the next setting is chosen: advisor, tpe, gp, random or grid.",
        ),
    ] = "advisor",
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the search raises: headroom, goodput, throughput, latency or cost.",
        ),
    ] = "headroom",
    load: Annotated[
        float,
        typer.Option(metavar="X", help="Multiple of the recorded load that is to be proven."),
    ] = 1.0,
    launches: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Most launches of the search, the baseline's included; confirmation adds at "
            "most 12, and 6 with --control-arm.",
        ),
    ] = 12,
    time_budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start no search launch after this time, e.g. 2h, 90m, 45s."
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="One-sided confidence of the whole job, above 0.5, at most 0.9999.",
        ),
    ] = 0.95,
    accept_precision_change: Annotated[
        bool,
        typer.Option(
            "--accept-precision-change",
            help="Allow advice that changes the precision of weights or KV cache, and so the "
            "answers; their quality is not checked.",
        ),
    ] = False,
    gpu_price: Annotated[
        float | None,
        typer.Option(
            metavar="MONEY",
            help="What one GPU costs for an hour, in any currency: the advice then shows what a "
            "million tokens cost.",
        ),
    ] = None,
    control_arm: Annotated[
        bool,
        typer.Option(
            "--control-arm",
            help="Confirm the current setting against itself, too; nothing is recommended where "
            "it seems better than itself. Adds half as many confirming launches.",
        ),
    ] = False,
    seed: Annotated[
        int,
        typer.Option(metavar="N", help="Of the search and of all prompts."),
    ] = 0,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="JOB", help="Go on with this job where it stands; it keeps its own options."
        ),
    ] = None,
    gpu_sets: Annotated[
        str | None,
        typer.Option(
            metavar="GPUS",
            help="GPUs that a server may use, e.g. 0 or 0,1. Several sets, e.g. '0;1' or "
            "'0,1;2,3': the search runs on them side by side. Only for --engine vllm or docker.",
        ),
    ] = None,
    gpu_hours: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Start no search launch after this many GPU-hours of launches; only for --engine "
            "vllm or docker.",
        ),
    ] = None,
    api: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="completions sends prompts as token ids, exact in length; chat sends them as "
            "messages of about that length. Default: completions; not for --engine sim.",
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write the tables of the result as one HTML file."),
    ] = None,
    db: DbOption = None,
    as_json_: JsonOption = False,
) -> int:
    """Try settings under a recorded load and recommend the one that is proven to meet the targets.

    \b
    Example:
      advisor recommend --engine sim --model llama-3.1-8b --hardware h100-sxm \\
        --profile chat-and-documents \\
        --target 'ttft:p95<=1000ms' --target 'itl:p99<=40ms'

    A new job needs --model, --profile and at least one --target. Progress goes to stderr, the
    result to stdout. Exit codes: 0 proven advice, 1 internal error, 2 bad input, 3 none meets,
    4 not proven, 6 blocked, 130 interrupted (go on with --resume).
    """
    # late, as it brings an HTTP client and Optuna: other commands start in half the time
    from advisor.cli import run_job

    if resume is not None:
        _refuse_beside_resume(context)
        return run_job.go_on(resume, db, as_json_, report)
    asked = Asked(
        model=_required("model", model),
        profile=_required("profile", profile),
        engine=engine,
        targets=tuple(target or ()),
        hardware=hardware,
        vllm_command=vllm_command,
        baseline=baseline,
        space=space,
        sampler=sampler,
        objective=objective,
        load=load,
        launches=launches,
        time_budget_s=None if time_budget is None else duration_s(time_budget),
        confidence=confidence,
        accept_precision_change=accept_precision_change,
        seed=seed,
        gpu_sets=gpu_sets,
        gpu_hours=gpu_hours,
        api=api,
        gpu_price=gpu_price,
        control_arm=control_arm,
    )
    return run_job.begin(asked, db, as_json_, report)


#: What may be given with --resume: where the job is, and how its result is shown.
_BESIDE_RESUME = frozenset({"resume", "report", "db", "as_json_"})


def _refuse_beside_resume(context: typer.Context) -> None:
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in _BESIDE_RESUME and source is not None and source.name == "COMMANDLINE":
            shown = name.replace("_", "-")
            raise InputError(f"--{shown} is given with --resume; a resumed job keeps its own")


def _required(name: str, value: str | None) -> str:
    if not value:
        raise InputError(f"{name} is missing; give --{name}")
    return value


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(h|m|min|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0}


def duration_s(text: str) -> float:
    """`2h` -> 7200.0. Raises InputError for anything but a number above 0 with a unit."""
    found = _DURATION.fullmatch(text.strip())
    if not found or float(found[1]) == 0:
        raise InputError(f"time budget {text!r}: expected a number above 0 with h, m or s")
    return float(found[1]) * _SECONDS[found[2]]
