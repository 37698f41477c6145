"""A command with the face of `vllm` and nothing behind it: run by the tests as a child process.

The model's name is the part it plays:
    plain       serves; no /server_info, so that metrics and log have to do
    informed    serves, with /server_info
    lonely      serves, without /metrics too
    family      serves, with a child in a session of its own that ignores SIGTERM
    stubborn    like family, and ignores SIGTERM itself
    sharing     serves, and holds a segment of shared memory
    stranger    answers, under another model name
    mute        serves, but a completion never comes
    silent      never becomes ready
    growing:S   is silent for S seconds, in which a file of it grows; then serves
    exit:N      ends with status N
    kill:N      ends itself with signal N
    say:TEXT    prints TEXT and ends with status 1
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.shared_memory import SharedMemory

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",enable_prefix_caching="True",\
gpu_memory_utilization="0.5",kv_cache_size_tokens="1024",cache_dtype="auto"} 1.0
"""
SERVER_INFO = {
    "vllm_config": {
        "scheduler_config": {"max_num_batched_tokens": 2048, "max_num_seqs": 128},
        "cache_config": {
            "enable_prefix_caching": True,
            "cache_dtype": "auto",
            "gpu_memory_utilization": 0.5,
            "kv_cache_size_tokens": 4096,
        },
        "model_config": {"dtype": "torch.float32", "quantization": None},
    }
}
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        say("a warning that comes first\n0.0.1+fake")
        return
    if sys.argv[1] != "serve":
        sys.exit(f"{sys.argv[0]}: error: unrecognized arguments: {sys.argv[1]}")
    if sys.argv[2] == "--help=all":
        flags = "".join(f"\n  --flag-{number} N  text" for number in range(30))
        say(f"usage: vllm serve [--enable-x, --no-enable-x]{flags}\n  --max-num-seqs N")
        return
    part, _, detail = sys.argv[2].partition(":")
    start(part, detail)
    say("INFO GPU KV cache size: 2,048 tokens, Maximum concurrency: 1.0x")
    say("INFO Chunked prefill is enabled with max_num_batched_tokens=512.")
    serve(part, int(_flag("--port")), _flag("--served-model-name"))


def start(part: str, detail: str) -> None:
    """What comes before a server is ready; parts that fail end here."""
    say(f"environment: {json.dumps(dict(os.environ))}")
    if part in ("family", "stubborn"):
        subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True)
    if part == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if part == "sharing":
        shared = SharedMemory(create=True, size=64)
        say(f"shared memory {shared.name}")
    if part == "exit":
        sys.exit(int(detail))
    if part == "kill":
        os.kill(os.getpid(), int(detail))
    if part == "say":
        say(detail)
        sys.exit(1)
    if part == "silent":
        time.sleep(600)
    if part == "growing":
        grow(float(detail))


def grow(seconds: float) -> None:
    until = time.monotonic() + seconds
    with open(os.path.join(os.environ["TMPDIR"], "download"), "wb", buffering=0) as file:
        while time.monotonic() < until:
            time.sleep(0.05)
            file.write(b"x")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _flag(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def serve(part: str, port: int, name: str) -> None:
    model = "somebody-else" if part == "stranger" else name
    pages = {
        "/health": "",
        "/version": json.dumps({"version": "0.0.1+fake"}),
        "/v1/models": json.dumps({"object": "list", "data": [{"id": model}]}),
    }
    if part != "lonely":
        pages["/metrics"] = METRICS
    if part == "informed":
        pages["/server_info"] = json.dumps(SERVER_INFO)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            self.answer(404 if page is None else 200, page or "")

        def do_POST(self) -> None:
            if part == "mute":
                time.sleep(600)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(200, json.dumps({"choices": [{"index": 0, "text": "a"}]}))

        def answer(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """The log is for what the parts say."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
