import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from advisor.engine import VllmEngine
from advisor.engine.device import Devices
from advisor.engine.endpoint import Endpoint
from advisor.engine.process import ServerProcess
from advisor.terms.errors import LaunchFailed
from advisor.terms.outcome import Failure
from advisor.terms.setting import Setting

FAKE = [sys.executable, str(Path(__file__).with_name("fake_vllm.py"))]
MARK = "ADVISOR_TEST_MARK"


def marked(mark: str) -> list[psutil.Process]:
    """Living processes with this test's mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


@pytest.fixture(name="mark")
def _mark() -> Iterator[str]:
    mark = secrets.token_hex(8)
    yield mark
    left = marked(mark)
    for process in left:
        process.kill()
    assert left == [], "processes outlived the test"


@pytest.fixture(name="engine")
def _engine(mark: str, tmp_path: Path) -> VllmEngine:
    return make_engine(mark, tmp_path)


def make_engine(
    mark: str, log_dir: Path, devices: Devices | None = None, **options: float
) -> VllmEngine:
    limits: dict[str, float] = {"start_timeout_s": 30.0, "stop_grace_s": 1.0, **options}
    return VllmEngine(FAKE, log_dir=log_dir, extra_env={MARK: mark}, devices=devices, **limits)


def spawn(argv: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, env={**os.environ, **env})


async def refusal(engine: VllmEngine, setting: Setting) -> Failure:
    with pytest.raises(LaunchFailed) as caught:
        async with engine.serve(setting):
            pytest.fail("it came up")
    return caught.value.failure


def server(endpoint: Endpoint) -> ServerProcess:
    """The processes that the engine started."""
    assert isinstance(endpoint.process, ServerProcess)
    return endpoint.process
