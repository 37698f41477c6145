"""The stand-in's command as a process of its own."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "advisor.standin"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def request(port: int, path: str, body: object = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            header = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), header)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@contextmanager
def serving(*words: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*COMMAND, "serve", "llama-3.1-8b", "--port", str(port), *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            assert process.poll() is None
            try:
                status, _text = request(port, "/health")
            except OSError:
                time.sleep(0.1)
                continue
            assert status == 200
            break
        yield port, process
    finally:
        process.kill()
        process.wait()
