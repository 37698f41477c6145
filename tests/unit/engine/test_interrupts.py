"""Whenever a job is cut off, no process of it is left."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.engine.process import ServerProcess, new_token
from advisor.terms.setting import Setting
from tests.unit.engine.conftest import FAKE, MARK, make_engine, marked, wait_for

MOMENTS = 20

#: Asks a command for its version that never tells.
ASKER = """
import asyncio, sys
from advisor.engine.command import read_version

variables = {"ADVISOR_TEST_MARK": sys.argv[1], "PATH": "/usr/bin:/bin"}
asyncio.run(read_version(sys.argv[2:], variables, 60))
"""
DEAF = "import os, time; open(os.environ['TMPDIR'] + '/in-use', 'w').close(); time.sleep(600)"

#: Serves `family` and waits; "go" tells that all is imported and the launch comes next.
DRIVER = """
import asyncio, signal, sys
from pathlib import Path
from advisor.engine import VllmEngine
from advisor.terms.setting import Setting

# who started the tests in the background has Ctrl-C ignored, and hands that down
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    engine = VllmEngine(sys.argv[3:], log_dir=Path(sys.argv[1]), stop_grace_s=0.05,
                        extra_env={"ADVISOR_TEST_MARK": sys.argv[2]})
    print("go", flush=True)
    async with engine.serve(Setting.of("family", {})):
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_cancelled_at_random_moments(mark: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    engine = make_engine(mark, tmp_path, stop_grace_s=0.05)

    async def serve() -> None:
        async with engine.serve(Setting.of("family", {})):
            await asyncio.sleep(60)

    for _ in range(MOMENTS):
        task = asyncio.create_task(serve())
        await asyncio.sleep(rng.uniform(0, 0.3))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert marked(mark) == []


async def test_cancelled_again_while_it_stops(mark: str, tmp_path: Path) -> None:
    engine = make_engine(mark, tmp_path, stop_grace_s=60)
    entered = asyncio.Event()

    async def serve() -> None:
        async with engine.serve(Setting.of("stubborn", {})):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(serve())
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0.1)  # now it waits for the grace to run out
    assert len(marked(mark)) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert marked(mark) == []


def test_a_start_that_was_cut_off_before_it_returned(mark: str, tmp_path: Path) -> None:
    """Between fork and return the parent holds no handle: only the token leads to the child."""
    cut_off = ServerProcess(new_token())
    env = {**os.environ, MARK: mark, "ADVISOR_LAUNCH": cut_off.token}
    child = subprocess.Popen([*FAKE, "serve", "silent"], env=env, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(marked(mark)) == 1)
    asyncio.run(cut_off.stop(grace_s=5))
    assert child.wait(timeout=5) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_at_random_moments(presses: int, mark: str, tmp_path: Path) -> None:
    rng = random.Random(presses)
    argv = [sys.executable, "-c", DRIVER, str(tmp_path), mark, *FAKE]
    for _ in range(MOMENTS):
        driver = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"go\n"
        time.sleep(rng.uniform(0, 0.5))
        for _ in range(presses):
            driver.send_signal(signal.SIGINT)
            time.sleep(rng.uniform(0, 0.1))
        assert driver.wait(timeout=30) != 0
        driver.stdout.close()
        assert marked(mark) == []


def test_killed_while_a_command_is_asked(mark: str, tmp_path: Path) -> None:
    """Neither the command nor its folder outlives the next look for leftovers."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-c", ASKER, mark, sys.executable, "-c", DEAF]
    asker = subprocess.Popen(argv, env=env)
    wait_for(lambda: list(tmp_path.glob("advisor-*/in-use")) != [])
    asker.kill()
    asker.wait()
    assert len(marked(mark)) == 1
    ends = "from advisor.engine.leftovers import end_leftovers; end_leftovers()"
    subprocess.run([sys.executable, "-c", ends], env=env, check=True, timeout=60)
    assert marked(mark) == []
    assert list(tmp_path.iterdir()) == []
