"""The client's latencies beside the server's own: two witnesses of one load."""

import numpy as np

from advisor.terms.job import ServerFacts
from advisor.terms.traces import MISSING, Traces

#: What lies between both: the way there and back, the parsing of the request, a busy API process.
#: The server starts its clock later and stops it earlier, so it never sees more than the client.
MOST_TRANSPORT_MS, MOST_TRANSPORT_SHARE = 20.0, 0.10
#: A mean gap is the same at both ends but for what bunching does to the first and the last token.
MOST_GAP_MS, MOST_GAP_SHARE = 2.0, 0.10


def disagreement(traces: Traces, facts: ServerFacts) -> str:
    """One line for a person when both tell of other means; empty when they agree or one is silent.

    Over all requests of the replay, the lead-in included, as the server's counters are. TTFT is
    taken from the send here, since the server knows nothing of the plan.
    """
    ttft_ms, itl_ms = _means_ms(traces)
    server_ttft_ms = _mean_ms(facts.ttft_s_sum, facts.ttft_count)
    server_itl_ms = _mean_ms(facts.itl_s_sum, facts.itl_count)
    lines = []
    if ttft_ms is not None and server_ttft_ms is not None:
        most_ms = max(MOST_TRANSPORT_MS, MOST_TRANSPORT_SHARE * server_ttft_ms)
        if not -MOST_GAP_MS <= ttft_ms - server_ttft_ms <= most_ms:
            lines.append(_line("TTFT", ttft_ms, server_ttft_ms))
    if itl_ms is not None and server_itl_ms is not None:
        most_ms = max(MOST_GAP_MS, MOST_GAP_SHARE * server_itl_ms)
        if not -most_ms <= itl_ms - server_itl_ms <= most_ms:
            lines.append(_line("ITL", itl_ms, server_itl_ms))
    return "; ".join(lines)


def _line(metric: str, here_ms: float, server_ms: float) -> str:
    return f"mean {metric} is {here_ms:.1f} ms here, {server_ms:.1f} ms at the server"


def _means_ms(traces: Traces) -> tuple[float | None, float | None]:
    """Of TTFT from the send, and of the gaps between events; None without any."""
    starts, ends = traces.event_offsets[:-1], traces.event_offsets[1:]
    begun = (ends > starts) & (traces.sent_ns != MISSING)
    first, last = traces.event_ns[starts[begun]], traces.event_ns[ends[begun] - 1]
    gaps = int((ends - starts - 1)[begun].sum())
    ttft = float(np.mean(first - traces.sent_ns[begun])) / 1e6 if begun.any() else None
    return ttft, float((last - first).sum()) / gaps / 1e6 if gaps else None


def _mean_ms(sum_s: float | None, count: float | None) -> float | None:
    return 1e3 * sum_s / count if sum_s is not None and count else None
