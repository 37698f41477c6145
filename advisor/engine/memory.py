"""Waiting for memory: until it is quiet before a retry, and until it is back after a stop."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil

from advisor.engine.device import Devices
from advisor.engine.process import not_released
from advisor.terms.errors import LaunchFailed
from advisor.terms.outcome import Reason

#: Less than this is noise: drivers and other processes come and go.
SLACK_BYTES = 256 * 1024**2
_READINGS = 5
_GIB = 1024**3


class Memory:
    """The devices' memory around each launch."""

    def __init__(self, devices: Devices, quiet_timeout_s: float, release_timeout_s: float) -> None:
        self._devices = devices
        self._quiet_timeout_s = quiet_timeout_s
        self._release_timeout_s = release_timeout_s
        #: the last launch met memory that another process held
        self._was_taken = False

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Launch in the block: after memory that was taken first wait until it is quiet, and see
        at the end that the devices have back what they had. Raises Blocked when they have not.
        """
        if self._was_taken:
            await until_quiet(self._devices, self._quiet_timeout_s)
            self._was_taken = False
        before_bytes = self._devices.read().memory_used_bytes
        try:
            yield
        except Exception as exc:
            # not after an interrupt: nothing follows then, and a person waits
            self._was_taken = _met_others(exc)
            await until_released(self._devices, before_bytes, self._release_timeout_s)
            raise
        await until_released(self._devices, before_bytes, self._release_timeout_s)


def _met_others(exc: Exception) -> bool:
    return isinstance(exc, LaunchFailed) and exc.failure.reason is Reason.MEMORY_TAKEN


async def until_quiet(devices: Devices, timeout_s: float, poll_s: float = 1.0) -> bool:
    """Wait until five readings in a row differ by less than the slack; False at the timeout.

    Of the devices; without any of the machine, whose memory a server for CPUs takes.
    """
    deadline = time.monotonic() + timeout_s
    seen: list[int] = []
    while True:
        used = devices.read().memory_used_bytes
        seen.append(psutil.virtual_memory().used if used is None else used)
        recent = seen[-_READINGS:]
        if len(recent) == _READINGS and max(recent) - min(recent) < SLACK_BYTES:
            return True
        if time.monotonic() + poll_s > deadline:
            return False
        await asyncio.sleep(poll_s)


async def until_released(
    devices: Devices, before_bytes: int | None, timeout_s: float, poll_s: float = 0.2
) -> None:
    """Wait until the devices use no more than before the launch.

    Raises Blocked (`not_released`) at the timeout. Where it is not known what they use, nothing
    is claimed and nothing waited for.
    """
    deadline = time.monotonic() + timeout_s
    while before_bytes is not None:
        used = devices.read().memory_used_bytes
        if used is None or used <= before_bytes + SLACK_BYTES:
            return
        if time.monotonic() > deadline:
            raise not_released(
                f"{timeout_s:g} s after the last server's end its devices use {used / _GIB:.2f} "
                f"GiB, before its start it was {before_bytes / _GIB:.2f} GiB"
            )
        await asyncio.sleep(poll_s)
