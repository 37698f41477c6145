"""One replay in the field names of the result file of `vllm bench serve`, vLLM 0.33.

Meanings are vLLM's own, so that the file can stand beside one of its own: latencies count from the
real send time, percentiles are NumPy's linear ones over the completed requests, and the counted
requests alone are in it. The duration runs from their first send to the last one's end. What vLLM
would write as 0 for a request that failed is null.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.measure.definitions import received_tokens
from advisor.report.requests import Exported
from advisor.terms.traces import MISSING, RequestStatus, Traces

#: vLLM's own default is p99 alone; verdicts mostly ask for a p95.
PERCENTILES = (50, 90, 95, 99)


def vllm_bench(exported: Exported, model: str, date: str) -> dict[str, Any]:
    """The object that `--save-result --save-detailed` would write; text is not recorded."""
    traces = exported.traces
    requests = list(_requests(traces))
    done = [request for request in requests if request.ok]
    window_s = (traces.window_end_ns - traces.window_start_ns) / 1e9
    seconds = _duration_s(requests)
    input_tokens = sum(request.prompt for request in done)
    output_tokens = sum(request.received for request in done)
    return {
        "date": date,
        "backend": "vllm",
        "endpoint_type": "vllm",
        "label": f"trial {exported.trial} replay {exported.replay}, {exported.window} at "
        f"{exported.multiple:g}x, {exported.outcome}",
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(requests),
        "request_rate": len(requests) / window_s,
        "max_concurrency": None,
        "duration": seconds,
        "completed": len(done),
        "failed": len(requests) - len(done),
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": _rate(len(done), seconds),
        "output_throughput": _rate(output_tokens, seconds),
        "total_token_throughput": _rate(input_tokens + output_tokens, seconds),
        "input_lens": [request.prompt for request in requests],
        "output_lens": [request.received for request in requests],
        "ttfts": [request.ttft_s for request in requests],
        "itls": [request.itls_s for request in requests],
        "latencies": [request.latency_s for request in requests],
        "start_times": [request.sent_s for request in requests],
        "errors": ["" if request.ok else request.status for request in requests],
        **_statistics("ttft", [request.ttft_s for request in done]),
        **_statistics("tpot", [request.tpot_s for request in done]),
        **_statistics("itl", [gap for request in done for gap in request.itls_s]),
        **_statistics("e2el", [request.latency_s for request in done]),
    }


@dataclass(frozen=True, slots=True)
class _Request:
    """One counted request, times in s; None is what never came."""

    ok: bool
    status: str
    prompt: int
    received: int
    sent_s: float | None
    ttft_s: float | None
    latency_s: float | None
    end_s: float | None
    itls_s: list[float]

    @property
    def tpot_s(self) -> float | None:
        if self.received < 2 or self.ttft_s is None or self.latency_s is None:
            return None
        return (self.latency_s - self.ttft_s) / (self.received - 1)


def _requests(traces: Traces) -> Iterator[_Request]:
    received = received_tokens(traces)
    prompts = np.where(traces.prompt_tokens == MISSING, traces.input_tokens, traces.prompt_tokens)
    for row in np.flatnonzero(traces.counted):
        events = traces.event_ns[traces.event_offsets[row] : traces.event_offsets[row + 1]]
        status, sent_ns = RequestStatus(traces.status[row]), int(traces.sent_ns[row])
        came = sent_ns != MISSING and len(events) > 0
        yield _Request(
            ok=status is RequestStatus.OK,
            status=status.name.lower(),
            prompt=int(prompts[row]),
            received=int(received[row]),
            sent_s=None if sent_ns == MISSING else sent_ns / 1e9,
            ttft_s=(int(events[0]) - sent_ns) / 1e9 if came else None,
            latency_s=(int(events[-1]) - sent_ns) / 1e9 if came else None,
            end_s=None if traces.end_ns[row] == MISSING else int(traces.end_ns[row]) / 1e9,
            itls_s=(np.diff(events) / 1e9).tolist(),
        )


def _duration_s(requests: Sequence[_Request]) -> float | None:
    """From the first send to the last end, as vLLM waits for all, failed ones too.

    The drain is in it, since what completes there is counted. None where nothing was sent.
    """
    sent = [each.sent_s for each in requests if each.sent_s is not None]
    ends = [each.end_s for each in requests if each.sent_s is not None and each.end_s is not None]
    return max(ends) - min(sent) if ends else None


def _rate(count: int, seconds: float | None) -> float | None:
    return count / seconds if seconds else None


def _statistics(name: str, values_s: Iterable[float | None]) -> dict[str, float | None]:
    """In ms; all None without values."""
    values = np.array([value for value in values_s if value is not None]) * 1e3
    keys = ("mean", "median", "std", *(f"p{p}" for p in PERCENTILES))
    found: Iterable[float | None] = [None] * len(keys)
    if len(values):
        spread = (values.mean(), np.median(values), values.std())
        found = [float(value) for value in (*spread, *np.percentile(values, PERCENTILES))]
    return {f"{key}_{name}_ms": value for key, value in zip(keys, found, strict=True)}
