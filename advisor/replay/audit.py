"""Whether a replay may be scored: did the client keep up, did the server do the planned work."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.measure.definitions import samples
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.target import Metric, Target
from advisor.terms.traces import MISSING, ClientAudit, RequestStatus, Traces

#: Shared machines show timer lateness of 2-3 ms at p99 with an idle client, so a gate below this
#: would void good replays; limits tight enough to be spoilt by 10 ms are not served over HTTP.
FLOOR_MS = 10.0
#: A late send adds to TTFT once per request, its full length: 2 % of the limit cannot turn a
#: verdict that the bounds could settle.
SEND_SHARE_OF_LIMIT = 0.02
#: A late stamp moves a gap's start as well as its end, and shifts neither most of the time; at
#: p99 a tenth of the limit stays inside the bounds of a p99.
STAMP_SHARE_OF_LIMIT = 0.10
#: Near its limit a percentile is easily pushed over: the client may take up a tenth of the way.
SHARE_OF_MARGIN = 0.10
#: More than this share of requests with other lengths is another load than the plan's.
MISMATCH_SHARE = 0.01
#: A text's length is planned by the average word; so near it is the work that was planned.
TEXT_DRIFT_SHARE, TEXT_DRIFT_TOKENS = 0.05, 4

_FROM_PLAN = (Metric.TTFT, Metric.E2E)
_BETWEEN_EVENTS = (Metric.ITL, Metric.TOKEN_ITL, Metric.TPOT)


def judge_replay(traces: Traces, targets: Sequence[Target]) -> tuple[ReplayOutcome, str]:
    """The outcome, and a note for a person: which gate and its figures, empty when valid.

    Each gate is set by what it could spoil: sends by the latencies that count from the plan,
    stamps by those between events. What is allowed is a share of the limit or of the way from
    the measured percentile to the limit, whichever is less, and never below 10 ms. Relative
    targets set no gate before they are resolved.
    """
    note = _client_note(traces, targets)
    if note:
        return ReplayOutcome.CLIENT_BOUND, note
    note = _mismatch_note(traces)
    return (ReplayOutcome.MISMATCH, note) if note else (ReplayOutcome.VALID, "")


def gates_line(targets: Sequence[Target]) -> str:
    """The client's gates that these targets set, before anything is measured."""
    sends, stamps = (
        min(
            (max(FLOOR_MS, share * t.limit_ns / 1e6) for t in _bound(targets, metrics)),
            default=None,
        )
        for share, metrics in (
            (SEND_SHARE_OF_LIMIT, _FROM_PLAN),
            (STAMP_SHARE_OF_LIMIT, _BETWEEN_EVENTS),
        )
    )
    named = (("sends", sends), ("stamps", stamps))
    found = [f"{name} {most_ms:.4g} ms" for name, most_ms in named if most_ms is not None]
    return (
        f"a replay is void where the load generator is later at p99 than: {', '.join(found)}; "
        f"or than {SHARE_OF_MARGIN:.0%} of the way from the measured percentile to its limit, if "
        f"that is less and above {FLOOR_MS:g} ms"
        if found
        else f"a replay is void where the load generator is later at p99 than {FLOOR_MS:g} ms"
    )


def _bound(targets: Sequence[Target], metrics: Sequence[Metric]) -> list[Target]:
    return [t for t in targets if t.metric in metrics and not t.is_relative]


def _client_note(traces: Traces, targets: Sequence[Target]) -> str:
    audit = traces.audit
    if audit is None:
        return ""
    name, stamps_ms = _stamp_lateness(audit)
    gates = (
        ("send lateness", audit.send_late_p99_ms, SEND_SHARE_OF_LIMIT, _FROM_PLAN),
        (name, stamps_ms, STAMP_SHARE_OF_LIMIT, _BETWEEN_EVENTS),
    )
    notes = []
    for gate, seen_ms, share, metrics in gates:
        if seen_ms is None or seen_ms <= FLOOR_MS:
            continue
        bound = _bound(targets, metrics)
        allowed_ms = min((_allowed_ms(traces, t, share) for t in bound), default=FLOOR_MS)
        if seen_ms > allowed_ms:
            notes.append(f"{gate} p99 {seen_ms:.1f} ms, at most {allowed_ms:.1f} ms allowed")
    return "; ".join(notes)


def _stamp_lateness(audit: ClientAudit) -> tuple[str, float | None]:
    """By how much stamps may be late: the kernel's are not where a read waits its turn."""
    if audit.stamp_late_p99_ms is not None:
        return "stamp lateness", audit.stamp_late_p99_ms
    return "client lag", audit.loop_lag_p99_ms


def _allowed_ms(traces: Traces, target: Target, share: float) -> float:
    limit_ms = target.limit_ns / 1e6
    values = samples(target.metric, traces).values
    if not len(values) or target.percentile is None:
        return max(FLOOR_MS, share * limit_ms)
    # an order statistic that exists, since a failed request's is infinite
    seen_ms = float(np.percentile(values, target.percentile, method="higher")) / 1e6
    margin_ms = abs(limit_ms - seen_ms)
    return max(FLOOR_MS, min(share * limit_ms, SHARE_OF_MARGIN * margin_ms))


def _mismatch_note(traces: Traces) -> str:
    ok = traces.counted & (traces.status == RequestStatus.OK)
    cumulative = np.concatenate(([0], np.cumsum(traces.event_tokens, dtype=np.int64)))
    received = np.diff(cumulative[traces.event_offsets])
    # a server that does not tell the prompt's length cannot contradict the plan
    told = traces.prompt_tokens != MISSING
    off = np.abs(traces.prompt_tokens - traces.input_tokens)
    prompts = ok & told & (off > _allowed_drift(traces))
    outputs = ok & (received != traces.output_tokens)
    total, wrong = int(ok.sum()), int((prompts | outputs).sum())
    if wrong <= MISMATCH_SHARE * total:
        return ""
    worst = int(np.flatnonzero(prompts | outputs)[0])
    return (
        f"{wrong} of {total} answered requests have other lengths than planned"
        f" ({int(prompts.sum())} prompts, {int(outputs.sum())} outputs); the first:"
        f" {traces.input_tokens[worst]} + {traces.output_tokens[worst]} tokens planned,"
        f" {_told(traces.prompt_tokens[worst])} + {received[worst]} seen"
    )


def _allowed_drift(traces: Traces) -> NDArray[np.float64]:
    """Tokens by which each prompt may differ from its plan: none when it was sent as ids."""
    if traces.audit is None or not traces.audit.text_prompts:
        return np.zeros(len(traces))
    drift = TEXT_DRIFT_SHARE * traces.input_tokens.astype(np.float64)
    return np.maximum(TEXT_DRIFT_TOKENS, drift)


def _told(count: np.int64) -> str:
    return "unknown" if count == MISSING else str(count)
