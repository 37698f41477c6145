"""Work side by side, of which nothing goes on when one of it fails."""

import asyncio

import pytest

from advisor.terms.errors import Blocked, EngineError
from advisor.tune.lanes import Lanes


class Log:
    """What work did, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.gate = asyncio.Event()

    async def wait(self, name: str) -> None:
        self.lines.append(f"{name} begins")
        try:
            await self.gate.wait()
        finally:
            await asyncio.sleep(0)  # an end that takes its time
            self.lines.append(f"{name} ends")

    async def fail(self, error: BaseException) -> None:
        raise error


async def test_work_has_begun_when_start_returns_and_takes_the_first_free_set() -> None:
    log = Log()
    async with Lanes(["a", "b"]) as lanes:
        await lanes.start(log.wait)
        assert log.lines == ["a begins"]
        await lanes.one_is_free()
        await lanes.start(log.wait)
        assert log.lines == ["a begins", "b begins"]
        with pytest.raises(RuntimeError, match="every set is busy"):
            await lanes.start(log.wait)
        log.gate.set()
        await lanes.one_is_free()
        while lanes.are_busy:
            await lanes.one_ends()
    assert log.lines[2:] == ["a ends", "b ends"]


async def test_leaving_cuts_off_what_runs_and_waits_until_it_has_ended() -> None:
    log = Log()
    async with Lanes(["a", "b"]) as lanes:
        await lanes.start(log.wait)
        await lanes.start(log.wait)
    assert log.lines == ["a begins", "b begins", "a ends", "b ends"]


@pytest.mark.parametrize("error", [Blocked("no"), EngineError("no"), ZeroDivisionError()])
async def test_an_error_of_one_is_told_and_ends_the_others(error: Exception) -> None:
    log = Log()

    async def both() -> None:
        async with Lanes(["a", "b"]) as lanes:
            await lanes.start(log.wait)
            await lanes.start(lambda _: log.fail(error))
            await lanes.one_is_free()

    with pytest.raises(type(error)) as caught:
        await both()
    assert caught.value is error
    assert log.lines == ["a begins", "a ends"]


async def stuck(_: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise Blocked("its server cannot be ended")


async def leave(error: BaseException | None) -> None:
    """With work that cannot be ended."""
    async with Lanes(["a"]) as lanes:
        await lanes.start(stuck)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
async def test_what_cannot_be_ended_is_told_when_nothing_else_went_wrong(
    error: BaseException | None,
) -> None:
    with pytest.raises(Blocked, match="cannot be ended"):
        await leave(error)


async def test_an_error_is_not_hidden_by_what_follows_from_it() -> None:
    with pytest.raises(EngineError, match="first"):
        await leave(EngineError("first"))
