"""Waiting for memory, over devices that a test plays."""

from collections.abc import Iterator, Sequence

import pytest

from advisor.engine.device import NoDevices, Reading
from advisor.engine.memory import SLACK_BYTES, until_quiet, until_released
from advisor.terms.errors import Blocked
from advisor.terms.outcome import Reason

GIB = 1024**3


class Played:
    """Readings in their order, the last for ever."""

    def __init__(self, *used: int | None) -> None:
        self._used: Iterator[int | None] = iter(used)
        self._now: int | None = None
        self.reads = 0

    def names(self) -> tuple[str, ...]:
        return ("played",)

    def read(self) -> Reading:
        self.reads += 1
        self._now = next(self._used, self._now)
        return Reading(memory_used_bytes=self._now)


async def test_quiet_is_five_readings_that_hardly_differ() -> None:
    devices = Played(9 * GIB, 7 * GIB, 4 * GIB, GIB, GIB, GIB, GIB, GIB)
    assert await until_quiet(devices, 10, poll_s=0)
    assert devices.reads == 8


async def test_memory_that_never_rests_is_waited_for_no_longer_than_said() -> None:
    falling = Played(*(GIB * n for n in range(10_000, 0, -1)))
    assert not await until_quiet(falling, 0.05, poll_s=0.01)


async def test_without_a_device_the_machines_memory_is_looked_at() -> None:
    assert await until_quiet(NoDevices(), 60, poll_s=0)


@pytest.mark.parametrize("used", [[5 * GIB, 3 * GIB, GIB], [GIB + SLACK_BYTES], [None]])
async def test_memory_that_comes_back_is_released(used: Sequence[int | None]) -> None:
    devices = Played(*used)
    await until_released(devices, GIB, 10, poll_s=0)
    assert devices.reads == len(used)


async def test_memory_that_does_not_come_back_blocks() -> None:
    with pytest.raises(
        Blocked, match=r"use 3\.00 GiB, before its start it was 1\.00 GiB"
    ) as caught:
        await until_released(Played(3 * GIB), GIB, 0.05, poll_s=0.01)
    assert caught.value.failure is not None
    assert caught.value.failure.reason is Reason.NOT_RELEASED


async def test_where_nothing_is_known_nothing_is_claimed() -> None:
    await until_released(NoDevices(), None, 0)
