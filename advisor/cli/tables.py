"""Trials and advice as a person reads them in a terminal."""

import math
from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from advisor.advice.choose import effective
from advisor.terms.advice import Advice, AdviceOutcome, Cost, Evidence
from advisor.terms.job import Job, Phase, Trial, TrialResult
from advisor.terms.measurement import Judgement, Measurement
from advisor.terms.outcome import TrialState
from advisor.terms.target import Metric, Target, Verdict

_COLOURS = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.UNDECIDED: "yellow"}
_HEADLINES = {
    AdviceOutcome.RECOMMENDED: "Recommended: change to this setting",
    AdviceOutcome.KEEP_CURRENT: "Keep the current setting: proven, nothing tried is shown better",
    AdviceOutcome.NOT_PROVEN: "Not proven: nothing here may be rolled out on this evidence",
    AdviceOutcome.NONE_MEETS: "None meets the targets at this load",
    AdviceOutcome.BLOCKED: "Blocked: the environment allows no further trial",
}


#: Of output into a pipe or a file, where no terminal tells its width.
_PIPE_WIDTH = 160


def stdout_console() -> Console:
    """Results go here; progress and errors go to stderr."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def trials_table(job: Job, trials: Sequence[Trial]) -> Table:
    """One row a trial: what was changed, and what it did at the job's load."""
    trials = [replace(t, setting=effective(t)) if t.phase is Phase.BASELINE else t for t in trials]
    knobs = _varied(trials)
    label = " (simulated)" if job.engine.simulated else " (measured)"
    load = f"{job.spec.load:g}x the recorded load"
    table = Table(title=f"Trials of job {job.id} at {load}{label}", box=box.SIMPLE_HEAD)
    for heading in ("trial", "phase", *knobs):
        table.add_column(heading.replace("_", " "), overflow="fold")
    for target in job.targets:
        table.add_column(str(target), justify="right", overflow="fold")
    table.add_column("headroom", overflow="fold")
    for trial in trials:
        table.add_row(*_cells(job, trial, knobs))
    return table


def _varied(trials: Sequence[Trial]) -> list[str]:
    """Flags that are not the same in all trials, the variant's among them."""
    settings = [dict(trial.setting.flags) for trial in trials]
    names = sorted({name for flags in settings for name in flags})
    return [name for name in names if len({str(flags.get(name)) for flags in settings}) > 1]


def _cells(job: Job, trial: Trial, knobs: Sequence[str]) -> list[str]:
    repeat = "" if trial.round is None else f" {trial.round + 1}.{(trial.repeat or 0) + 1}"
    cells = [str(trial.number), f"{trial.phase}{repeat}"]
    cells += [_value(trial.setting.get(knob)) for knob in knobs]
    result = trial.result
    at_load = result.at(job.spec.load)
    if at_load is None:
        why = result.failure.reason if result.failure else result.note
        return [*cells, f"[red]{escape(f'{result.state} {why}')}[/]", *[""] * len(job.targets)]
    cells += [_judged(at_load, target, trial.phase) for target in job.targets]
    return [*cells, _end(result) if trial.phase.is_proof else str(result.headroom or "")]


def _end(result: TrialResult) -> str:
    """How a confirming launch ended, where not well."""
    if result.soak is not None and not result.soak.survived:
        return f"[red]{escape(f'soak: {result.soak.trouble}')}[/]"
    if result.state is TrialState.MEASURED:
        return ""
    why = result.failure.reason if result.failure else result.note
    return f"[red]{escape(f'{result.state} {why}')}[/]"


def _value(value: object) -> str:
    if value is None:
        return "-"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _judged(measurement: Measurement, target: Target, phase: Phase) -> str:
    judgement = next((j for j in measurement.judgements if j.target == target), None)
    if judgement is None:
        return "-"
    if phase.is_proof:  # one window proves nothing; the pool of the round does
        return _number(judgement.estimate, target)
    colour = _COLOURS[judgement.verdict]
    return f"[{colour}]{_number(judgement.estimate, target)} {judgement.verdict}[/]"


def _number(value: float | None, target: Target) -> str:
    if value is None:
        return "no data"
    if target.metric is Metric.ERRORS:
        return f"{value:.2g} %" if value < 10 else f"{value:.0f} %"
    return f"{value:.4g} ms" if value < 10_000 else f"{value / 1000:.4g} s"


def print_advice(console: Console, job: Job, advice: Advice) -> None:
    """The outcome, the evidence beside the baseline's, the change, and the reasons."""
    label = "simulated" if advice.engine.simulated else "measured"
    console.print(f"\n[bold]{_HEADLINES[advice.outcome]}[/] ({label}, job {job.id})")
    if advice.choice is not None:
        console.print(_evidence_table(advice, label))
    for line in advice.diff:
        console.print(f"  {escape(line)}", highlight=False)
    if advice.choice is not None and advice.outcome.exit_code == 0:
        argv = " ".join(("vllm", "serve", *advice.choice.setting.argv()))
        console.print(f"\n  {escape(argv)}\n", highlight=False, soft_wrap=True)
    for reason in advice.reasons:
        console.print(f"- {escape(reason)}", highlight=False, soft_wrap=True)
    hours = "" if advice.gpu_hours is None else f", {advice.gpu_hours:.3g} GPU-hours"
    console.print(
        f"{advice.search_launches} search launches, {advice.confirm_launches} confirming ones, "
        f"{advice.replays} replays{hours}; all numbers are {label} on {advice.engine.hardware}",
        highlight=False,
    )


def _evidence_table(advice: Advice, label: str) -> Table:
    assert advice.choice is not None
    kept = advice.outcome is AdviceOutcome.KEEP_CURRENT
    nearest = advice.outcome in (AdviceOutcome.NONE_MEETS, AdviceOutcome.NOT_PROVEN)
    heading = "current" if kept else "nearest" if nearest else "recommended"
    arms = [(heading, advice.choice)]
    if advice.baseline is not None and not kept:
        arms.append(("baseline", advice.baseline))
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(f"{label}")
    for name, arm in arms:
        where = "held-out load" if arm.confirmed else "search load"
        table.add_column(f"{name} ({where})", justify="right")
    for target in _targets(arms):
        table.add_row(str(target), *(_bounded(arm.measurement, target) for _, arm in arms))
    # of the search, whatever load the rest is of: it ranked the settings and proves nothing
    table.add_row("headroom in the search", *(str(arm.headroom or "-") for _, arm in arms))
    measured = [arm.measurement for _, arm in arms]
    tokens = [f"{m.output_tokens_per_s:.0f}" if m else "-" for m in measured]
    goodput = [f"{m.goodput_rps:.2f}" if m else "-" for m in measured]
    table.add_row("output tokens/s", *tokens)
    table.add_row("goodput requests/s", *goodput)
    costs = [arm.cost for _, arm in arms]
    for name, cells in _cost_rows(costs):
        table.add_row(name, *cells)
    return table


def _cost_rows(costs: Sequence[Cost | None]) -> list[tuple[str, list[str]]]:
    """Nothing where no cost was asked for or could be told."""
    if not any(costs):
        return []
    hours = [
        "-" if c is None else f"{c.gpu_hours_per_mtok:.4g} (GPUs: {c.gpus}, at {c.multiple:g}x)"
        for c in costs
    ]
    money = [
        "-" if c is None or c.money_per_mtok is None else f"{c.money_per_mtok:.4g}" for c in costs
    ]
    rows = [("GPU-hours per million tokens", hours)]
    if any(c is not None and c.money_per_mtok is not None for c in costs):
        rows.append(("money per million tokens", money))
    return rows


def _targets(arms: Sequence[tuple[str, Evidence]]) -> list[Target]:
    measured = next((arm.measurement for _, arm in arms if arm.measurement), None)
    return [judgement.target for judgement in measured.judgements] if measured else []


def _bounded(measurement: Measurement | None, target: Target) -> str:
    judgements = measurement.judgements if measurement else ()
    judgement = next((j for j in judgements if j.target == target), None)
    if judgement is None:
        return "-"
    colour = _COLOURS[judgement.verdict]
    return f"{_range(judgement)} [{colour}]{judgement.verdict}[/]"


def _range(judgement: Judgement) -> str:
    target, upper = judgement.target, judgement.upper
    estimate, low = (_number(value, target) for value in (judgement.estimate, judgement.lower))
    if upper is not None and math.isinf(upper):
        if target.metric is not Metric.ERRORS:
            return f"{estimate} ({low} or more)"
        upper = 100.0  # without an upper bound, too, a share ends there
    return f"{estimate} ({low} to {_number(upper, target)})"
