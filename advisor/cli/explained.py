"""Why the figures of a job are what they are, as a person reads it in a terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from advisor.advice.costs import TargetCost
from advisor.advice.effects import KnobEffect, Pair
from advisor.advice.explanation import Explanation
from advisor.advice.findings import flag
from advisor.advice.spent import TimeSpent
from advisor.advice.tradeoff import TradeOff
from advisor.terms.advice import Advice
from advisor.terms.job import Job


def print_explanation(
    console: Console, job: Job, advice: Advice, explanation: Explanation
) -> None:
    """Tables of what was measured, each with its label, and what the advice has not said yet."""
    label = "simulated" if job.engine.simulated else "measured"
    if explanation.spent:
        console.print(_spent_table(explanation.spent, advice, label))
    if explanation.costs:
        console.print(_costs_table(explanation.costs, label))
    if explanation.effects:
        console.print(_effects_table(explanation.effects, job, label))
    if len(explanation.trade_off.spots) > 1:
        console.print(_trade_off_table(explanation.trade_off, label))
    if explanation.untold:
        names = ", ".join(flag(knob) for knob in explanation.untold)
        _line(
            console, f"Not told apart, as no two trials that can be compared differ in it: {names}"
        )
    for line in (*explanation.reasons, *explanation.facts):
        if line not in advice.reasons:
            _line(console, line)


def _line(console: Console, text: str) -> None:
    console.print(f"- {escape(text)}", highlight=False, soft_wrap=True)


def _spent_table(spent: Sequence[TimeSpent], advice: Advice, label: str) -> Table:
    table = Table(
        title=f"Where a request's time went at {spent[0].multiple:g}x, mean ms by the server's "
        f"counters ({label})",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("setting")
    for heading in ("queue", "prefill and way", "both: TTFT", "decode", "preemptions", "replays"):
        table.add_column(heading, justify="right")
    baseline = advice.baseline.setting if advice.baseline else None
    for each in spent:
        name = "current" if each.setting == baseline else "this one"
        parts = (each.queue_ms, each.prefill_ms, each.ttft_ms, each.decode_ms, each.preemptions)
        told = ("not told" if part is None else f"{part:.4g}" for part in parts)
        table.add_row(name, *told, str(each.replays))
    return table


def _costs_table(costs: Sequence[TargetCost], label: str) -> Table:
    table = Table(title=f"What each target costs ({label}, search load)", box=box.SIMPLE_HEAD)
    for heading in ("target", f"of its limit at {costs[0].multiple:g}x", "headroom without it"):
        table.add_column(heading)
    for cost in costs:
        used = "no data" if cost.used is None else f"{100 * cost.used:.0f} %"
        without = "-"
        if cost.without is not None:
            without = f"{cost.without} (trial {cost.without_trial})"
        table.add_row(str(cost.target), used + ", nearest" * cost.nearest, without)
    return table


def _effects_table(effects: Sequence[KnobEffect], job: Job, label: str) -> Table:
    table = Table(
        title=f"What each knob does to {job.spec.objective}: pairs of trials that differ in it "
        f"alone ({label}, point estimates)",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("knob", "pairs", "better by", "of the spread", "most of all"):
        table.add_column(heading)
    for effect in effects:
        share = "-" if effect.share is None else f"{100 * effect.share:.0f} %"
        better = "within noise" if effect.is_alike else f"{effect.factor:.2f} times"
        table.add_row(
            flag(effect.knob), str(len(effect.pairs)), better, share, _shown(effect.pairs[0])
        )
    return table


def _shown(pair: Pair) -> str:
    one, other = pair.trials
    return f"{pair.better} over {pair.worse}: {pair.factor:.2f} times (trials {one} and {other})"


def _trade_off_table(trade_off: TradeOff, label: str) -> Table:
    table = Table(
        title=f"TTFT against ITL against headroom at {trade_off.multiple:g}x ({label}); with a *: "
        "no other setting is as good in all three",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("trial")
    for metric, percentile in (
        ("TTFT", trade_off.ttft_percentile),
        ("ITL", trade_off.itl_percentile),
    ):
        table.add_column(f"{metric} p{percentile:g}, ms", justify="right")
    table.add_column("headroom")
    table.add_column("change against the current setting", overflow="fold")
    for spot in trade_off.spots:
        table.add_row(
            f"{spot.trial}{' *' * spot.on_curve}",
            f"{spot.ttft_ms:.4g}",
            f"{spot.itl_ms:.4g}",
            str(spot.headroom or "-"),
            escape(", ".join(spot.changes) or "none"),
        )
    return table
