"""Devices: missing is missing, and one that is not here is refused by name."""

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from advisor.engine.device import (
    FileDevices,
    NoDevices,
    NvmlDevices,
    Reading,
    find_devices,
    throttles,
)
from advisor.standin.device import leave_taken, take, visible
from advisor.terms.errors import InputError

UUIDS = ["GPU-aaaa-1", "GPU-bbbb-2"]


class Driver:
    """Answers NVML's functions for two GPUs; the functions in `silent` have no answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *silent: str) -> None:
        answers = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: UUIDS[handle],
            "nvmlDeviceGetHandleByUUID": lambda uuid: 2 if uuid == "MIG-1" else self._fails(),
            "nvmlDeviceGetMemoryInfo": lambda handle: type("M", (), {"used": 10 + handle}),
            "nvmlDeviceGetPowerUsage": lambda handle: 500_000,
            "nvmlDeviceGetUtilizationRates": lambda handle: type("U", (), {"gpu": 40 * handle}),
            "nvmlDeviceGetClockInfo": lambda handle, kind: 1900 - handle,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4 | 0x40 * handle,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(pynvml, name, self._fails if name in silent else answer)

    def _fails(self, *_: object) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def test_all_devices_of_a_launch_are_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch)
    devices = find_devices(None, {})
    assert devices.names() == tuple(UUIDS)
    assert devices.read() == Reading(21, 1000.0, 0.2, 1899.0, ("hardware thermal slowdown",))


def test_what_the_driver_does_not_tell_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, "nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrentClocksEventReasons")
    reading = find_devices("1", {}).read()
    assert (reading.memory_used_bytes, reading.power_w, reading.throttled) == (11, None, None)


@pytest.mark.parametrize("word", ["1", "GPU-bbbb-2", "GPU-b"])
def test_an_index_and_a_uuid_name_the_same_device(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Driver(monkeypatch)
    assert find_devices(word, {}).names() == ("GPU-bbbb-2",)


def test_a_part_of_a_gpu_is_a_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, "nvmlDeviceGetUtilizationRates")
    devices = find_devices("0,MIG-1", {})
    assert devices.names() == ("GPU-aaaa-1", "MIG-1")
    assert devices.read().memory_used_bytes == 22
    assert devices.read().utilization is None


@pytest.mark.parametrize("word", ["2", "GPU-", "GPU-x", "MIG-2"])
def test_a_device_that_is_not_here_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch)
    with pytest.raises(InputError, match=rf"no GPU '{word}' here; there are: 0 \(GPU-aaaa-1\)"):
        find_devices(word, {})


def test_without_a_driver_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch, "nvmlInit")
    devices = find_devices(None, {})
    assert isinstance(devices, NoDevices)
    assert devices.names() == ()
    assert devices.read() == Reading(None, None, None, None, None)


@pytest.mark.parametrize("word", ["0", "x", "GPU-aaaa-1", "0,1"])
@pytest.mark.parametrize("silent", [("nvmlInit",), ("nvmlDeviceGetCount",)])
def test_a_gpu_of_a_machine_without_any_is_refused(
    word: str, silent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Driver(monkeypatch, *silent)
    first = word.partition(",")[0]
    with pytest.raises(InputError, match=rf"no GPU '{first}' here;.*leave --gpu-sets out"):
        find_devices(word, {})


def test_a_machine_with_a_driver_and_no_gpu_locks_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Driver(monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 0)
    assert isinstance(find_devices(None, {}), NoDevices)
    with pytest.raises(InputError, match="no GPU '0' here"):
        find_devices("0", {})


@pytest.mark.parametrize("word", ["1", "x", "0,1"])
def test_a_file_stands_for_one_device_only(word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"gpu sets '{word}': .* expected 0"):
        find_devices(word, {"ADVISOR_FAKE_DEVICE": str(tmp_path / "device.jsonl")})


def test_a_power_cap_is_no_throttling() -> None:
    assert throttles([pynvml.nvmlClocksEventReasonSwPowerCap]) == ()
    assert throttles([0, pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown]) == ("power brake",)


def test_no_devices_at_all_are_missing_and_not_zero() -> None:
    assert NvmlDevices({}).read() == Reading()


def test_a_file_stands_for_a_device(tmp_path: Path) -> None:
    path = tmp_path / "device.jsonl"
    devices = find_devices("0", {"ADVISOR_FAKE_DEVICE": str(path)})
    assert devices == FileDevices(path)
    assert devices.read() == Reading()
    nobody = '{"pid": null, "bytes": 5}\n'
    for text, used in (("", 0), (nobody, 5), ("{}", None), ("[", None), ("3", None)):
        path.write_text(text)
        assert devices.read().memory_used_bytes == used


def test_several_files_stand_for_several_devices(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for number, path in enumerate(paths):
        leave_taken(path, 10**number)
    environ = {"ADVISOR_FAKE_DEVICE": os.pathsep.join(map(str, paths))}
    for gpus, names, used in (
        (None, paths, 111),
        ("1", paths[1:2], 10),
        ("2,0", [paths[2], paths[0]], 101),
    ):
        devices = find_devices(gpus, environ)
        assert devices.names() == tuple(map(str, names))
        assert devices.read().memory_used_bytes == used
    with pytest.raises(InputError, match=r"gpu sets '3': .* expected 0, 1, 2, or leave it out"):
        find_devices("3", environ)


def test_a_server_holds_memory_on_the_devices_that_it_may_see(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    both = os.pathsep.join((str(one), str(two)))
    assert visible({"ADVISOR_FAKE_DEVICE": both, "CUDA_VISIBLE_DEVICES": "1"}) == [two]
    assert visible({"ADVISOR_FAKE_DEVICE": both, "CUDA_VISIBLE_DEVICES": "1,0"}) == [two, one]
    assert visible({"ADVISOR_FAKE_DEVICE": both}) == [one, two]
    # the machine that tests run on may have GPUs of its own
    assert visible({"ADVISOR_FAKE_DEVICE": str(one), "CUDA_VISIBLE_DEVICES": "GPU-a"}) == [one]
    assert visible({"CUDA_VISIBLE_DEVICES": "0"}) == []


def test_its_memory_is_held_as_long_as_a_process_lives(tmp_path: Path) -> None:
    path = tmp_path / "device.jsonl"
    program = (
        "import sys; from pathlib import Path; from advisor.standin.device import take;"
        "take(Path(sys.argv[1]), 5); print('taken', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        take(path, 7)
        leave_taken(path, 1)
        assert FileDevices(path).read().memory_used_bytes == 13
    # the other one has ended
    assert FileDevices(path).read().memory_used_bytes == 8
