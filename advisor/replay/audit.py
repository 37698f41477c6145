"""Whether a replay may be scored: did the client keep up, did the server do the planned work."""

import numpy as np

from advisor.terms.outcome import ReplayOutcome
from advisor.terms.traces import MISSING, ClientAudit, RequestStatus, Traces

#: Shared machines show timer lateness of 2-3 ms at p99 with an idle client, so a gate below this
#: would void good replays; limits tight enough to be spoilt by 10 ms are not served over HTTP.
FLOOR_MS = 10.0
#: A late send adds to TTFT once per request, its full length: 2 % cannot turn a verdict that
#: the bounds could settle.
SEND_SHARE_OF_TTFT = 0.02
#: Loop lag moves a gap's start as well as its end, and shifts neither most of the time; at p99
#: a tenth of the limit stays inside the bounds of a p99.
LAG_SHARE_OF_ITL = 0.10
#: More than this share of requests with other lengths is another load than the plan's.
MISMATCH_SHARE = 0.01


def judge_replay(
    traces: Traces, *, ttft_limit_ms: float | None, itl_limit_ms: float | None
) -> tuple[ReplayOutcome, str]:
    """The outcome, and a note for a person: which gate and its figures, empty when valid.

    Each gate is set by what it could spoil: the tightest TTFT limit and the tightest ITL limit
    of the job, None where it has none. Limits are in milliseconds.
    """
    note = _client_note(traces.audit, ttft_limit_ms, itl_limit_ms)
    if note:
        return ReplayOutcome.CLIENT_BOUND, note
    note = _mismatch_note(traces)
    return (ReplayOutcome.MISMATCH, note) if note else (ReplayOutcome.VALID, "")


def _client_note(
    audit: ClientAudit | None, ttft_limit_ms: float | None, itl_limit_ms: float | None
) -> str:
    if audit is None:
        return ""
    gates = (
        ("send lateness", audit.send_late_p99_ms, SEND_SHARE_OF_TTFT, ttft_limit_ms),
        ("event-loop lag", audit.loop_lag_p99_ms, LAG_SHARE_OF_ITL, itl_limit_ms),
    )
    notes = []
    for name, seen_ms, share, limit_ms in gates:
        allowed_ms = FLOOR_MS if limit_ms is None else max(FLOOR_MS, share * limit_ms)
        if seen_ms is not None and seen_ms > allowed_ms:
            notes.append(f"{name} p99 {seen_ms:.1f} ms, at most {allowed_ms:.1f} ms allowed")
    return "; ".join(notes)


def _mismatch_note(traces: Traces) -> str:
    ok = traces.counted & (traces.status == RequestStatus.OK)
    cumulative = np.concatenate(([0], np.cumsum(traces.event_tokens, dtype=np.int64)))
    received = np.diff(cumulative[traces.event_offsets])
    # a server that does not tell the prompt's length cannot contradict the plan
    told = traces.prompt_tokens != MISSING
    prompts = ok & told & (traces.prompt_tokens != traces.input_tokens)
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


def _told(count: np.int64) -> str:
    return "unknown" if count == MISSING else str(count)
