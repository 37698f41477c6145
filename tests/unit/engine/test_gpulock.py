"""One job on a GPU at a time, whatever became of the one before."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from advisor.engine.gpulock import hold
from advisor.terms.errors import Blocked, InputError

#: Holds the devices until it is killed; says so.
HOLDER = """
import sys, time
from pathlib import Path
from advisor.engine.gpulock import hold
with hold(sys.argv[2:], Path(sys.argv[1]), "a job for llama"):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path, *devices: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", HOLDER, str(folder), *devices]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("ours", [["a"], ["b"], ["a", "c"], ["c", "b"]])
def test_a_second_job_on_any_of_the_devices_is_refused_by_the_holders_name(
    ours: list[str], tmp_path: Path
) -> None:
    with holder(tmp_path, "a", "b") as other:
        try:
            with (
                pytest.raises(
                    Blocked, match=rf"GPU [ab] is in use by pid {other.pid} \(a job for llama\)"
                ),
                hold(ours, tmp_path, "another"),
            ):
                pytest.fail("it was held")
            # what it took before it was refused is free again
            with hold(["c"], tmp_path, "a third"):
                pass
        finally:
            other.kill()


def test_the_lock_of_a_killed_job_is_taken_over(tmp_path: Path) -> None:
    with holder(tmp_path, "a") as other:
        other.kill()
        other.wait()
    with hold(["a"], tmp_path, "the next"):
        pass


def test_without_a_gpu_the_machine_is_held(tmp_path: Path) -> None:
    with (
        hold([], tmp_path, "job 1f0c9a2b"),
        pytest.raises(Blocked, match=r"this machine is in use by pid \d+ \(job 1f0c9a2b\)"),
        hold([], tmp_path, "another"),
    ):
        pytest.fail("it was held")
    with hold([], tmp_path, "another"):
        pass


def test_an_unsigned_lock_is_respected_too(tmp_path: Path) -> None:
    with hold(["a"], tmp_path, "x"):
        (path,) = tmp_path.glob("*.lock")
        path.write_text("")
        with (
            pytest.raises(Blocked, match="in use by another process"),
            hold(["a"], tmp_path, "y"),
        ):
            pytest.fail("it was held")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match="data folder: cannot lock in"),
        hold([], tmp_path / "file" / "locks", "x"),
    ):
        pytest.fail("it was held")


@contextmanager
def no_room() -> Iterator[None]:
    """Files of this process may not grow: every write fails as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_without_room_for_the_lock(tmp_path: Path) -> None:
    with no_room(), pytest.raises(InputError) as caught, hold(["a"], tmp_path, "x"):
        pytest.fail("it was held")
    assert str(caught.value) == f"data folder: cannot lock in {tmp_path}: File too large"
    with hold(["a"], tmp_path, "y"):
        pass
