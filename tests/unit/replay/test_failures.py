"""The client against a server that fails: each fault has its class, and none is retried."""

import asyncio
import errno
import gc
import os
import resource
import socket
from types import SimpleNamespace

import pytest

from advisor.replay.failures import check_our_own
from advisor.terms.errors import LaunchFailed, ReplayError, ReplayInterrupted
from advisor.terms.outcome import Reason
from advisor.terms.traces import MISSING, RequestStatus
from tests.unit.replay.golden import DONE, Exchange, Script, chunk, event, golden, usage
from tests.unit.replay.playing import play, request, tokens_of


async def reset_before_headers(exchange: Exchange) -> None:
    exchange.reset()


async def close_before_headers(exchange: Exchange) -> None:
    exchange.writer.close()


async def reset_in_stream(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.write(chunk(1))
    await exchange.write(chunk(1))
    exchange.reset()


async def close_in_stream(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.write(chunk(1))
    await exchange.write(chunk(1))
    exchange.writer.close()


async def http_500(exchange: Exchange) -> None:
    said = b'{"error": {"message": "engine is dead"}}'
    await exchange.start("500 Internal Server Error", length=len(said))
    exchange.writer.write(said)
    await exchange.writer.drain()


async def http_500_then_reset(exchange: Exchange) -> None:
    await http_500(exchange)
    await asyncio.sleep(0.05)
    exchange.reset()


async def bad_framing(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n")
    await exchange.writer.drain()


async def close_in_head(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-")
    await exchange.writer.drain()
    exchange.writer.close()


async def redirect(exchange: Exchange) -> None:
    head = (
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/completions\r\nContent-Length: 0\r\n\r\n"
    )
    exchange.writer.write(head.encode())
    await exchange.writer.drain()


async def no_http(exchange: Exchange) -> None:
    exchange.writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    await exchange.writer.drain()


async def error_in_stream(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.write(chunk(1))
    await exchange.write(chunk(1))
    await exchange.write(event({"error": {"message": "out of blocks"}}) + DONE)
    await exchange.end()


async def truncated(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.write(chunk(2))
    await exchange.write(usage(8, 2) + DONE)
    await exchange.end()


async def no_done(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.write(chunk(3))
    await exchange.end()


async def nothing(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.end()


async def stall(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.write(chunk(1))
    await exchange.write(chunk(1))
    await asyncio.sleep(60)


FAULTS: list[tuple[Script, RequestStatus, int]] = [
    (reset_before_headers, RequestStatus.RESET, 0),
    (close_before_headers, RequestStatus.RESET, 0),
    (reset_in_stream, RequestStatus.RESET, 2),
    (close_in_stream, RequestStatus.RESET, 2),
    (http_500, RequestStatus.HTTP, 0),
    (http_500_then_reset, RequestStatus.HTTP, 0),
    (bad_framing, RequestStatus.HTTP, 0),
    (close_in_head, RequestStatus.RESET, 0),
    (redirect, RequestStatus.HTTP, 0),
    (no_http, RequestStatus.HTTP, 0),
    (error_in_stream, RequestStatus.IN_STREAM, 2),
    (truncated, RequestStatus.TRUNCATED, 2),
    (nothing, RequestStatus.TRUNCATED, 0),
    (no_done, RequestStatus.OK, 3),
    (stall, RequestStatus.TIMEOUT, 2),
]


@pytest.mark.parametrize(("script", "status", "tokens"), FAULTS)
async def test_each_fault_has_its_class_and_is_not_retried(
    script: Script, status: RequestStatus, tokens: int
) -> None:
    async with golden({8: script}) as server:
        traces = await play(server.url, request(0, 8), request(20, 16), request_timeout_s=1.0)
    assert traces.status.tolist() == [status, RequestStatus.OK]
    assert sum(tokens_of(traces, 0)) == tokens
    assert traces.end_ns[0] >= traces.sent_ns[0] >= 0
    assert sorted(server.order) == [8, 16]


async def test_every_request_has_a_connection_of_its_own() -> None:
    """So none can meet one that the server is closing, which would be the client's doing."""
    async with golden() as server:
        await play(server.url, request(0, 8, 1), request(200, 16, 1))
        first, second = server.exchanges[8], server.exchanges[16]
    assert first.writer is not second.writer
    assert first.closes


async def test_a_refused_connection_is_a_failed_request() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        traces = await play(url, request(0, 8), request(5, 16))
    assert traces.status.tolist() == [RequestStatus.CONNECT] * 2
    assert traces.event_offsets.tolist() == [0, 0, 0]
    assert (traces.sent_ns >= 0).all()
    assert traces.prompt_tokens.tolist() == [MISSING] * 2


async def test_an_answer_before_the_whole_request_was_read_counts() -> None:
    """A server that refuses a long prompt early closes while the client still sends."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        traces = await play(url, request(0, 600_000, 1))
    assert traces.status.tolist() in ([RequestStatus.HTTP], [RequestStatus.RESET])
    assert traces.end_ns[0] < 5_000_000_000


async def test_what_a_failure_said_is_logged_once_per_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with golden({8: http_500, 16: http_500, 24: close_before_headers}) as server:
        await play(server.url, request(0, 8), request(5, 16), request(10, 24))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0].startswith("2 requests ended as HTTP: HTTP 500: ")
    assert "engine is dead" in messages[0]
    assert messages[1].startswith("1 requests ended as RESET: ")


async def test_one_stuck_stream_is_not_a_hang_while_another_advances() -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.start()
        for _ in range(8):
            await exchange.write(chunk(1))
            await asyncio.sleep(0.25)
        await exchange.end()

    async with golden({8: stall, 16: slow}) as server:
        plan = request(0, 8, 3), request(0, 16, 8)
        traces = await play(server.url, *plan, stall_timeout_s=1.2, request_timeout_s=2.2)
    assert traces.status.tolist() == [RequestStatus.TIMEOUT, RequestStatus.OK]


async def test_silence_between_requests_is_not_a_hang() -> None:
    async with golden() as server:
        plan = request(0, 8, 1), request(1500, 16, 1)
        traces = await play(server.url, *plan, stall_timeout_s=0.8)
    assert traces.status.tolist() == [RequestStatus.OK] * 2


async def only_pings(exchange: Exchange) -> None:
    await exchange.start()
    while True:
        await exchange.write(b": ping\n\n" + event({"choices": [{"text": "", "token_ids": []}]}))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("script", [stall, only_pings])
async def test_no_token_on_any_stream_is_a_hang(script: Script) -> None:
    async with golden({8: script, 16: script}) as server:
        plan = request(0, 4, 1), request(50, 8), request(60, 16), request(60_000, 24)
        with pytest.raises(ReplayInterrupted, match=r"no token for .* with 2 requests") as caught:
            await play(server.url, *plan, stall_timeout_s=0.5)
    traces, stopped = caught.value.traces, RequestStatus.STOPPED
    assert caught.value.failure.reason is Reason.HUNG
    assert traces.status.tolist() == [RequestStatus.OK, stopped, stopped, stopped]
    assert tokens_of(traces, 0) == [1]
    assert (traces.end_ns[1:3] > traces.sent_ns[1:3]).all()
    assert (traces.sent_ns[3], traces.end_ns[3]) == (MISSING, MISSING)
    assert gc.isenabled()


async def test_a_dead_server_ends_the_replay_at_once_with_what_was_measured() -> None:
    async with golden({8: stall}) as server:

        def alive() -> bool:
            return 8 not in server.exchanges

        plan = request(0, 4, 1), request(20, 8), request(60_000, 16)
        with pytest.raises(LaunchFailed, match="ended under load, with 1 of 3") as caught:
            await play(server.url, *plan, alive=alive)
    assert isinstance(caught.value, ReplayInterrupted)
    assert caught.value.failure.reason is Reason.CRASHED_UNDER_LOAD
    assert caught.value.traces.status.tolist()[0] == RequestStatus.OK
    assert caught.value.traces.planned_ns.tolist() == [0, 20_000_000, 60_000_000_000]


async def test_a_server_that_dies_with_the_last_request_is_seen() -> None:
    dead = SimpleNamespace(now=False)

    async def die(exchange: Exchange) -> None:
        dead.now = True
        exchange.reset()

    async with golden({8: die}) as server:
        with pytest.raises(ReplayInterrupted) as caught:
            await play(server.url, request(0, 8), alive=lambda: not dead.now)
    assert caught.value.failure.reason is Reason.CRASHED_UNDER_LOAD
    assert caught.value.traces.status.tolist() == [RequestStatus.RESET]


async def test_a_server_that_does_not_count_its_tokens_cannot_be_measured() -> None:
    async def uncounted(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(chunk(1, ids=False))
        await exchange.write(DONE)
        await exchange.end()

    async with golden({8: uncounted}) as server:
        with pytest.raises(ReplayError, match="1 chunks carry text but neither token_ids nor"):
            await play(server.url, request(0, 8, 1))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL])
def test_running_out_ourselves_is_not_the_servers_failure(number: int) -> None:
    with pytest.raises(ReplayError, match=r"^cannot connect: "):
        check_our_own(OSError(number, "out"))
    check_our_own(OSError(errno.ECONNREFUSED, "the server's"))


async def test_too_many_open_files_ends_the_replay() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(ReplayError, match="too many open files"):
            await play("http://127.0.0.1:9", request(0, 8), request(60_000, 8))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert gc.isenabled()
