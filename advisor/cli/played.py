"""How well the load generator did in the replays of a job."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape

from advisor.replay.audit import gates_line
from advisor.store.rows import Played
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.target import Target


def played_json(played: Played) -> dict[str, Any]:
    """One replay of a trial, void or not."""
    return {
        "window": played.window,
        "multiple": played.multiple,
        "outcome": str(played.outcome),
        "note": played.note or None,
        "audit": None if played.audit is None else asdict(played.audit),
    }


def print_played(
    console: Console, played: Mapping[int, Sequence[Played]], targets: Sequence[Target]
) -> None:
    """What is to be said of the replays, and the client's worst figures with the gates that they
    were held against; nothing where its time was virtual."""
    for number, replays in played.items():
        for one in replays:
            if one.note:
                outcome = "" if one.outcome is ReplayOutcome.VALID else f"{one.outcome}: "
                where = f"trial {number}, {one.window} at {one.multiple:g}x"
                console.print(escape(f"! {where}: {outcome}{one.note}"), soft_wrap=True)
    worst = _worst_line([one for replays in played.values() for one in replays])
    if worst:
        console.print(escape(worst), soft_wrap=True)
        console.print(escape(gates_line(targets)), soft_wrap=True)


def _worst_line(played: Sequence[Played]) -> str:
    """Over the scored replays."""
    scored = [one for one in played if one.outcome.is_scored]
    audits = [one.audit for one in scored if one.audit is not None]
    real = [audit for audit in audits if audit.stamped_at != "virtual"]
    if not real:
        return ""
    stamps = [a.stamp_late_p99_ms for a in real if a.stamp_late_p99_ms is not None]
    shares = [a.cpu_share for a in real if a.cpu_share is not None]
    line = (
        f"load generator at its worst in {len(real)} scored replays: sends p99 "
        f"{max(a.send_late_p99_ms for a in real):.2f} ms late"
    )
    line += f", stamps p99 {max(stamps):.2f} ms late" if stamps else ""
    line += f", {max(shares):.0%} of a core" if shares else ""
    drifts = [a.prompt_drift_pct for a in real if a.text_prompts and a.prompt_drift_pct]
    line += f", prompts {max(drifts, key=abs):+.1f} % longer than planned" if drifts else ""
    soaks = sum(one.outcome is ReplayOutcome.SOAK for one in played)
    void = len(played) - len(scored) - soaks
    return line + (f"; {void} other replays were not scored" if void else "")
