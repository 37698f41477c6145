"""Processes of other people that look like servers of ours, and must be left alone."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from advisor.engine.process import TOKEN_VARIABLE

_SERVE = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
print("up", flush=True)
time.sleep(100000)
"""


@contextmanager
def decoys(folder: Path) -> Iterator[list[psutil.Process]]:
    """Three: a server named vllm, an engine core by its title, a launch of a living Advisor."""
    program = folder / "vllm"
    program.write_text(f"#!{sys.executable}\n{_SERVE}")
    program.chmod(0o755)
    alive = f"{os.getpid()}.{int(psutil.Process().create_time())}.{secrets.token_hex(8)}"
    started = [
        _start([str(program), "serve", "other/model", "--port", "8000"], {}),
        _start([str(program), "VLLM::EngineCore", "advisor-other"], {}),
        _start([str(program), "serve", "another/model"], {TOKEN_VARIABLE: alive}),
    ]
    try:
        yield [psutil.Process(process.pid) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _start(argv: list[str], extra: dict[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        argv, env={**os.environ, **extra}, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def touched(processes: list[psutil.Process]) -> int:
    """How many have ended or were stopped since."""
    stopped = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return sum(not each.is_running() or each.status() in stopped for each in processes)
