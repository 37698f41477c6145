"""One replay in the field names of the result file of `vllm bench serve`, vLLM 0.33.

Meanings are vLLM's own, so that the file can stand beside one of its own: latencies count from the
real send time, percentiles are NumPy's linear ones over the completed requests, and the counted
requests alone are in it. What vLLM would write as 0 for a request that failed is null.
"""

from collections.abc import Iterable, Iterator
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
    seconds = (traces.window_end_ns - traces.window_start_ns) / 1e9
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
        "request_rate": len(requests) / seconds,
        "max_concurrency": None,
        "duration": seconds,
        "completed": len(done),
        "failed": len(requests) - len(done),
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": len(done) / seconds,
        "output_throughput": output_tokens / seconds,
        "total_token_throughput": (input_tokens + output_tokens) / seconds,
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
            itls_s=(np.diff(events) / 1e9).tolist(),
        )


def _statistics(name: str, values_s: Iterable[float | None]) -> dict[str, float | None]:
    """In ms; all None without values."""
    values = np.array([value for value in values_s if value is not None]) * 1e3
    keys = ("mean", "median", "std", *(f"p{p}" for p in PERCENTILES))
    found: Iterable[float | None] = [None] * len(keys)
    if len(values):
        spread = (values.mean(), np.median(values), values.std())
        found = [float(value) for value in (*spread, *np.percentile(values, PERCENTILES))]
    return {f"{key}_{name}_ms": value for key, value in zip(keys, found, strict=True)}
