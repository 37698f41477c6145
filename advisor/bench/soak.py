"""The soak: does a server survive the profile's longest requests, all of them at once?

A setting may carry every window and die of a moment that no window held: what the start leaves
free of the memory is not tried before the largest batch comes. Nothing is measured here.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np

from advisor.bench.play import Playing
from advisor.measure.definitions import is_failed, is_unseen
from advisor.terms.errors import ReplayInterrupted
from advisor.terms.job import Launch, Replay, ServerFacts, Soak
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan, Window, WindowRole
from advisor.terms.traces import MISSING, Look, RequestStatus, Traces

#: The time there is. Longer than a server may be silent before it counts as hung (120 s), so that
#: one that hangs from the first token on is seen to.
_MOST_S = 240
WINDOW = Window("soak", WindowRole.SOAK, 0, _MOST_S * 10**9)


#: A server that does not tell how many sequences it runs at once is sent no more than so many.
_MOST_AT_ONCE = 1024


def most_at_once(launch: Launch) -> int:
    """More than twice what a server runs at once would only wait, however long the queue was."""
    seqs = dict(launch.resolved).get("max_num_seqs")
    return 2 * seqs if isinstance(seqs, int) else _MOST_AT_ONCE


def soak_plan(requests: int, multiple: float, salt: int) -> Plan:
    """So many at once; `multiple` is the load that brings as many, for the record."""
    return Plan(WINDOW, multiple, salt, lead_in_ns=0, at_once=requests)


async def soak(server: Playing, plan: Plan, record: Callable[[Replay], None]) -> Soak:
    """Play it, and record it as no measurement.

    What is not done when the time is over is given up, and is no failure. Raises LaunchFailed when
    the server ends or hangs.
    """
    before = await server.facts()
    try:
        traces = await server.replay(plan, look=Look(0, lambda so_far: True))
    except ReplayInterrupted as exc:
        message = exc.failure.message
        record(Replay(plan, ReplayOutcome.SOAK, message, exc.traces, ServerFacts()))
        raise
    facts = await server.facts(before)
    trouble = _trouble(traces)
    record(Replay(plan, ReplayOutcome.SOAK, trouble, traces, facts))
    return Soak(len(traces), int(is_unseen(traces).sum()), trouble)


def _trouble(traces: Traces) -> str:
    """Which requests failed, empty when none did."""
    failed = traces.status[is_failed(traces)].tolist()
    if not failed:
        return ""
    kinds = Counter(RequestStatus(status).name.lower() for status in failed)
    listed = ", ".join(f"{kind} x{count}" for kind, count in sorted(kinds.items()))
    return f"{len(failed)} of {len(traces)} requests failed ({listed})"


def most_open(traces: Traces) -> int:
    """How many requests were open at one moment, the lead-in's too."""
    sent = traces.sent_ns != MISSING
    starts = np.sort(traces.sent_ns[sent])
    ends = np.sort(traces.end_ns[sent & (traces.end_ns != MISSING)])
    ended = np.searchsorted(ends, starts, side="right")
    return int((np.arange(1, len(starts) + 1) - ended).max(initial=0))
