"""The end of a launch: its processes, its files, the memory that it held."""

import os
import signal
import sys
from pathlib import Path

import pytest

from advisor.engine import VllmEngine
from advisor.engine.device import FileDevices, NoDevices, Reading
from advisor.terms.errors import Blocked
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.engine.conftest import MARK, make_engine, marked, refusal, server, spawn


def is_there(folder: Path) -> bool:
    return folder.is_dir()


async def test_the_token_is_told_before_anything_is_started(engine: VllmEngine, mark: str) -> None:
    told: list[tuple[str, int]] = []
    async with engine.serve(
        Setting.of("plain", {}), lambda token: told.append((token, len(marked(mark))))
    ) as endpoint:
        assert told == [(server(endpoint).token, 0)]
        assert marked(mark)[0].environ()["ADVISOR_LAUNCH"] == server(endpoint).token


async def test_temporary_files_of_a_launch_are_gone_after_it(engine: VllmEngine) -> None:
    async with engine.serve(Setting.of("plain", {})) as endpoint:
        (process,) = server(endpoint).living()
        folder = Path(process.environ()["TMPDIR"])
        assert is_there(folder)
        assert process.environ()["TORCHINDUCTOR_CACHE_DIR"].startswith(str(folder.parent))
        (folder / "socket").touch()
        os.kill(server(endpoint).pid, signal.SIGKILL)
    assert not is_there(folder)


async def test_a_device_that_is_not_released_blocks_what_follows(
    mark: str, tmp_path: Path
) -> None:
    device = tmp_path / "device"
    device.write_text("")
    engine = make_engine(mark, tmp_path, devices=FileDevices(device), release_timeout_s=0.3)
    with pytest.raises(Blocked, match="not_released: ") as caught:
        async with engine.serve(Setting.of("plain", {})):
            device.write_text('{"pid": null, "bytes": 5000000000}')
    assert caught.value.failure is not None
    assert caught.value.failure.reason is Reason.NOT_RELEASED
    assert marked(mark) == []


async def test_after_memory_that_was_taken_it_is_waited_for(mark: str, tmp_path: Path) -> None:
    class Counted(NoDevices):
        reads = 0

        def read(self) -> Reading:
            Counted.reads += 1
            return Reading(memory_used_bytes=7)

    engine = make_engine(mark, tmp_path, devices=Counted(), quiet_timeout_s=60)
    taken = "say:AssertionError: Error in memory profiling. Initial free memory 1 GiB"
    assert (await refusal(engine, Setting.of(taken, {}))).reason is Reason.MEMORY_TAKEN
    before = Counted.reads
    for _ in range(2):
        assert (await refusal(engine, Setting.of("exit:3", {}))).reason is Reason.DIED
    # five for quiet, once; one before and one after each launch
    assert Counted.reads - before == 5 + 4


def test_a_job_that_takes_the_machine_ends_what_a_killed_one_left_on_it(
    engine: VllmEngine, mark: str
) -> None:
    orphan = spawn(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        {"ADVISOR_LAUNCH": "999999999.1.abc", MARK: mark},
    )
    with engine.hold("a job"):
        assert orphan.wait(timeout=5) == -signal.SIGKILL


async def test_servers_of_a_killed_advisor_are_ended_before_the_next_launch(
    engine: VllmEngine, mark: str
) -> None:
    token = "999999999.1.abc"  # no such process: pids end at 2**22
    env = {"ADVISOR_LAUNCH": token, MARK: mark}
    orphan = spawn([sys.executable, "-c", "import time; time.sleep(60)"], env)
    async with engine.serve(Setting.of("plain", {})):
        assert orphan.wait(timeout=5) == -signal.SIGKILL
