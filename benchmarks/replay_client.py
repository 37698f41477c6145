"""How fast and how truthful the load generator is; prints one JSON object.

A server in a process of its own streams one token per event, each stream on its own absolute
grid, and reports when it wrote what. Both ends read one monotonic clock (Linux), so the
server's gaps are the truth that the client's gaps are held against. Lag is counted above the
fastest event of a run. On few cores the server takes its share: read a bias as "at most".
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.replay.client import replay
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus, Traces

STREAMS_PER_1K = 20
PACE_S = 0.02
#: distinct prompt lengths tell the streams apart
SHORTEST = 16


@dataclass(frozen=True)
class Run:
    traces: Traces
    #: int64[streams, tokens], when the server wrote each event
    written_ns: NDArray[np.int64]
    cpu_s: float

    @property
    def seen_ns(self) -> NDArray[np.int64]:
        return self.traces.event_ns.reshape(self.written_ns.shape)

    @property
    def lag_p99_ms(self) -> float:
        lag = self.seen_ns - self.written_ns
        return float(np.percentile(lag - lag.min(), 99)) / 1e6

    @property
    def itl_p99_bias_pct(self) -> float:
        true, seen = (
            float(np.percentile(np.diff(stamps, axis=1), 99))
            for stamps in (self.written_ns, self.seen_ns)
        )
        return 100 * (seen / true - 1)


def main() -> None:
    flat_out = run(streams=64, tokens=400, pace_s=0.0)
    at_5k = run(streams=5 * STREAMS_PER_1K, tokens=400, pace_s=PACE_S)
    at_20k = run(streams=20 * STREAMS_PER_1K, tokens=400, pace_s=PACE_S)
    audit = at_5k.traces.audit
    assert audit is not None
    result = {
        "events_per_s_core": round(flat_out.written_ns.size / flat_out.cpu_s),
        "ratio_to_httpx": None,
        "events_per_read": _rounded(audit.events_per_read),
        "itl_p99_bias_pct_5k": _rounded(at_5k.itl_p99_bias_pct),
        "itl_p99_bias_pct_20k": _rounded(at_20k.itl_p99_bias_pct),
        "lag_p99_ms_5k": _rounded(at_5k.lag_p99_ms),
        "send_late_p99_ms": _rounded(audit.send_late_p99_ms),
    }
    print(json.dumps(result))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def run(*, streams: int, tokens: int, pace_s: float) -> Run:
    """Play `streams` requests spread over one second; the CPU is this process's, all told."""
    plan = [
        PlannedRequest(round(1e9 * i / streams), SHORTEST + i, tokens, (i,), counted=True)
        for i in range(streams)
    ]
    command = [sys.executable, __file__, "serve", str(streams), str(pace_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        play = replay(
            plan,
            server.stdout.readline().strip(),
            "none",
            block_tokens=SHORTEST + streams,
            vocab_size=32_000,
            window_start_ns=0,
            window_end_ns=1_000_000_000,
            request_timeout_s=60.0,
            stall_timeout_s=30.0,
            alive=lambda: server.poll() is None,
        )
        before_s = time.process_time()
        traces = asyncio.run(play)
        cpu_s = time.process_time() - before_s
        written = json.loads(server.stdout.readline())
        server.terminate()
    assert (traces.status == RequestStatus.OK).all()
    in_order = [written[str(request.input_length)] for request in plan]
    return Run(traces, np.array(in_order, dtype=np.int64), cpu_s)


async def serve(streams: int, pace_s: float) -> None:
    """Print the address, serve that many requests, print every stamp, wait to be ended."""
    written: dict[int, list[int]] = {}
    finished = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        stamps: list[int] = []
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        begin_s = asyncio.get_running_loop().time()
        for number in range(1, body["max_tokens"] + 1):
            ahead_s = begin_s + number * pace_s - asyncio.get_running_loop().time()
            await asyncio.sleep(max(0.0, ahead_s))
            stamps.append(time.perf_counter_ns())
            writer.write(_event(len(body["prompt"]), number))
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()
        written[len(body["prompt"])] = stamps
        if len(written) == streams:
            finished.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**24)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await finished.wait()
    print(json.dumps(written), flush=True)
    await asyncio.sleep(60)


def _event(prompt_tokens: int, number: int) -> bytes:
    """As long as vLLM's own, so that a read costs what it costs there."""
    return (
        b'data: {"id":"cmpl-5d1b34f0c8f64b7e9c1f6f0b2a7f1c9d","object":"text_completion",'
        b'"created":1790000000,"model":"none","choices":[{"index":0,"text":" word","logprobs":'
        b'null,"finish_reason":null,"stop_reason":null,"token_ids":[%d]}],"usage":'
        b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}\n\n'
        % (1000 + number, prompt_tokens, prompt_tokens + number, number)
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(int(sys.argv[2]), float(sys.argv[3])))
    else:
        main()
