"""What this machine's load generator carries, for a program and for a person."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from advisor.replay.capacity import Carried, carried_per_s
from advisor.terms.traces import ClientAudit


def carried_json(tried: Sequence[Carried]) -> dict[str, Any]:
    """`events_per_s` is the highest rate that was seen truly, 0 when none was."""
    return {
        "events_per_s": carried_per_s(tried),
        "tried": [
            {
                "events_per_s": one.events_per_s,
                "true": one.is_true,
                "itl_p99_bias_pct": 100 * one.itl_p99_bias,
                **asdict(one.audit),
            }
            for one in tried
        ],
    }


def carried_lines(tried: Sequence[Carried]) -> list[str]:
    """One line with the answer, one for each rate tried."""
    lines = [f"carries {carried_per_s(tried):,} events/s truly"]
    lines += [
        f"at {one.events_per_s:,} events/s: ITL p99 {100 * one.itl_p99_bias:+.1f} %, "
        f"{_client(one.audit)}"
        for one in tried
    ]
    return lines


def _client(audit: ClientAudit) -> str:
    parts = [f"sends p99 {audit.send_late_p99_ms:.2f} ms late", f"stamped by {audit.stamped_at}"]
    if audit.stamp_late_p99_ms is not None:
        parts.append(f"stamps p99 {audit.stamp_late_p99_ms:.2f} ms late")
    if audit.cpu_share is not None:
        parts.append(f"{audit.cpu_share:.0%} of a core")
    return ", ".join(parts)
