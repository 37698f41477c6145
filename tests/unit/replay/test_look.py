"""A replay that is looked at while it is played, and ended or not."""

import asyncio

import pytest

from advisor.replay.record import Record
from advisor.terms.traces import MISSING, Look, RequestStatus, Traces
from tests.unit.replay.golden import Exchange, chunk, golden
from tests.unit.replay.playing import play, request, tokens_of

STOPPED = RequestStatus.STOPPED


async def slow(exchange: Exchange, tokens: int = 60) -> None:
    """Two tokens at once, then one every 50 ms."""
    await exchange.start()
    await exchange.write(chunk(2))
    for _ in range(tokens):
        await asyncio.sleep(0.05)
        await exchange.write(chunk(1))
    await exchange.end()


async def endless(exchange: Exchange) -> None:
    await slow(exchange, 1_000)


async def silent(exchange: Exchange) -> None:
    await exchange.start()
    await asyncio.sleep(30)


PLAN = (request(0, 4, 1), request(20, 8, 1_002), request(40, 16, 3), request(60_000, 24, 1))


async def test_what_is_open_is_given_up_once_the_look_is_settled() -> None:
    seen = list[Traces]()

    def settled(so_far: Traces) -> bool:
        seen.append(so_far)
        return True

    # late enough that a busy machine has answered what it is going to answer
    look = Look(100_000_000, settled)
    async with golden({8: endless, 16: silent}) as server:
        traces = await play(server.url, *PLAN, window_end_ms=3_000, look=look)
    (so_far,) = seen
    for found in (so_far, traces):
        assert found.status.tolist() == [RequestStatus.OK, STOPPED, STOPPED, STOPPED]
        assert tokens_of(found, 0) == [1]
        assert tokens_of(found, 1)[:2] == [2, 1]
        assert tokens_of(found, 2) == []
        assert found.sent_ns[3] == found.end_ns[3] == MISSING
    # what came until the end is kept, though it came after the look
    assert len(tokens_of(traces, 1)) >= len(tokens_of(so_far, 1))
    assert (so_far.end_ns[1:3] >= 3_100_000_000).all()


async def test_a_look_that_settles_nothing_changes_nothing() -> None:
    asked = list[int]()

    def settled(so_far: Traces) -> bool:
        asked.append(len(so_far.event_ns))
        return False

    async with golden({8: slow}) as server:
        plan = (PLAN[0], request(20, 8, 62))
        traces = await play(server.url, *plan, window_end_ms=300, look=Look(0, settled))
    assert traces.status.tolist() == [RequestStatus.OK] * 2
    assert len(asked) == 1
    assert asked[0] < len(traces.event_ns)


async def test_a_replay_that_is_over_is_not_looked_at() -> None:
    def settled(_: Traces) -> bool:
        pytest.fail("nothing was open")

    async with golden() as server:
        traces = await play(server.url, request(0, 8), window_end_ms=5_000, look=Look(0, settled))
    assert traces.status.tolist() == [RequestStatus.OK]


async def test_a_look_that_breaks_is_an_error() -> None:
    def settled(_: Traces) -> bool:
        raise ZeroDivisionError

    async with golden({8: slow}) as server:
        with pytest.raises(ZeroDivisionError):
            await play(server.url, *PLAN[:2], window_end_ms=100, look=Look(0, settled))


def test_a_copy_holds_only_reads_that_are_complete() -> None:
    record = Record(sent_ns=1)
    record.add(b"one", 2, 1)
    record.reads.append(b"two")  # the other thread is in the middle of it
    record.read_ns.append(3)
    copy = record.so_far()
    assert (copy.reads, list(copy.read_ns), list(copy.looked_ns)) == ([b"one"], [2], [1])
    assert len(copy.kernel) == 16
    record.status = RequestStatus.OK  # and its end is not there yet
    assert record.so_far().status is STOPPED
    record.end_ns = 9
    assert (record.so_far().status, record.so_far().end_ns) == (RequestStatus.OK, 9)
