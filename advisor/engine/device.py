"""The devices of one launch, as their driver tells of them: memory, use, clocks, throttling.

Where there is no NVIDIA GPU, or its driver does not tell, a value is None, never 0.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
import pynvml

from advisor.terms.errors import InputError

T = TypeVar("T")

#: Names files that stand for the devices, see FileDevices, parted as folders in PATH are: for
#: tests without a GPU.
FAKE_DEVICE_VARIABLE = "ADVISOR_FAKE_DEVICE"

#: A start time is boot time plus ticks, and the boot time is known to the second only.
_SAME_START_S = 2.0

#: Reasons to run slower than the load asks for (NVML's nvmlClocksEventReasons): heat, an external
#: brake, or hardware at its electrical limits. A software power cap is none of them: a busy GPU
#: runs at its power limit all the time.
_THROTTLES = {
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "software thermal slowdown",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hardware thermal slowdown",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """All devices of a launch at one moment."""

    #: sums over the devices
    memory_used_bytes: int | None = None
    power_w: float | None = None
    #: 0..1, the mean over the devices
    utilization: float | None = None
    #: of the slowest device
    sm_clock_mhz: float | None = None
    #: names from `_THROTTLES`; None where the driver does not tell
    throttled: tuple[str, ...] | None = None


class Devices(Protocol):
    """What the supervisor asks of them."""

    def names(self) -> tuple[str, ...]:
        """A stable name for each device that the launch may see; empty when none is known."""
        ...

    def read(self) -> Reading: ...


@dataclass(frozen=True, slots=True)
class NoDevices:
    """A machine without a GPU, or without a driver that tells of it."""

    def names(self) -> tuple[str, ...]:
        return ()

    def read(self) -> Reading:
        return Reading()


@dataclass(frozen=True, slots=True)
class FileDevices:
    """Each file stands for one device: each line tells of memory, and which process holds it.

    `{"pid": P, "started_s": T, "bytes": N}` counts as long as that process lives, as it would on
    a GPU; with a pid of null it counts for ever.
    """

    path: Path
    more: tuple[Path, ...] = ()

    def names(self) -> tuple[str, ...]:
        return tuple(str(path) for path in (self.path, *self.more))

    def read(self) -> Reading:
        try:
            texts = [path.read_bytes() for path in (self.path, *self.more)]
            lines = [json.loads(line) for text in texts for line in text.splitlines()]
            return Reading(memory_used_bytes=sum(int(x["bytes"]) for x in lines if _holds(x)))
        except (OSError, ValueError, KeyError, TypeError):
            return Reading()


def _holds(line: Mapping[str, Any]) -> bool:
    if line["pid"] is None:
        return True
    try:
        process = psutil.Process(line["pid"])
        same = abs(process.create_time() - line["started_s"]) <= _SAME_START_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class NvmlDevices:
    """Asks the NVIDIA driver."""

    def __init__(self, handles: Mapping[str, Any]) -> None:
        """`handles`: UUID -> NVML's handle."""
        self._handles = dict(handles)

    def names(self) -> tuple[str, ...]:
        return tuple(self._handles)

    def read(self) -> Reading:
        used = self._each(lambda h: int(pynvml.nvmlDeviceGetMemoryInfo(h).used))
        power = self._each(lambda h: pynvml.nvmlDeviceGetPowerUsage(h) / 1000)
        use = self._each(lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu / 100)
        clock = self._each(lambda h: float(pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM)))
        reasons = self._each(lambda h: int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(h)))
        return Reading(
            memory_used_bytes=None if used is None else sum(used),
            power_w=None if power is None else sum(power),
            utilization=None if use is None else sum(use) / len(use),
            sm_clock_mhz=None if clock is None else min(clock),
            throttled=None if reasons is None else throttles(reasons),
        )

    def _each(self, ask: Callable[[Any], T]) -> list[T] | None:
        """Of every device; None when one cannot tell, since a sum over the others would lie."""
        try:
            return [ask(handle) for handle in self._handles.values()] or None
        except pynvml.NVMLError:
            return None


def throttles(reasons: list[int]) -> tuple[str, ...]:
    """The names of what slows any of the devices, from NVML's bit masks."""
    return tuple(name for bit, name in _THROTTLES.items() if any(mask & bit for mask in reasons))


def find_devices(gpus: str | None, environ: Mapping[str, str]) -> Devices:
    """The devices that a launch with CUDA_VISIBLE_DEVICES=`gpus` sees; all when that is None.

    Raises InputError for one that is not here: a server would not see it, and its name would be
    locked instead of what the server does use.
    """
    if fake := environ.get(FAKE_DEVICE_VARIABLE):
        return _files([Path(path) for path in fake.split(os.pathsep)], gpus)
    try:
        pynvml.nvmlInit()
        found = _all_devices()
    except pynvml.NVMLError:
        found = []
    if gpus is None:
        return NvmlDevices(dict(found)) if found else NoDevices()
    return NvmlDevices(dict(_chosen(found, word) for word in gpus.split(",")))


def _files(paths: list[Path], gpus: str | None) -> Devices:
    known = {str(number): path for number, path in enumerate(paths)}
    words = list(known) if gpus is None else gpus.split(",")
    if not known.keys() >= set(words):
        raise InputError(
            f"gpu sets {gpus!r}: files stand for GPUs; expected {', '.join(known)}, or leave "
            "it out"
        )
    first, *more = (known[word] for word in words)
    return FileDevices(first, tuple(more))


def _all_devices() -> list[tuple[str, Any]]:
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    return [(str(pynvml.nvmlDeviceGetUUID(handle)), handle) for handle in handles]


def _chosen(found: list[tuple[str, Any]], word: str) -> tuple[str, Any]:
    """CUDA takes an index, the beginning of a UUID, or the UUID of a part of a GPU (MIG)."""
    if re.fullmatch(r"\d+", word):
        with suppress(IndexError):
            return found[int(word)]
    else:
        matching = [device for device in found if device[0].startswith(word)]
        if len(matching) == 1:
            return matching[0]
        with suppress(pynvml.NVMLError):
            # without a driver this fails as well
            return word, pynvml.nvmlDeviceGetHandleByUUID(word)
    if not found:
        raise InputError(
            f"gpu sets: there is no GPU {word!r} here; NVIDIA's driver (NVML) finds none on this "
            "machine, so leave --gpu-sets out"
        )
    known = ", ".join(f"{index} ({uuid})" for index, (uuid, _) in enumerate(found))
    raise InputError(f"gpu sets: there is no GPU {word!r} here; there are: {known}")
