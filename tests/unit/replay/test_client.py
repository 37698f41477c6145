"""The client against a server in order: what is sent, when, and how it is counted."""

import asyncio
import gc
import json
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from advisor.replay.body import encode_bodies
from advisor.replay.turns import Turn, turns_of
from advisor.terms.errors import InputError, ReplayError
from advisor.terms.job import Api
from advisor.terms.traces import RequestStatus
from tests.unit.replay.golden import DONE, Exchange, chunk, event, golden, usage
from tests.unit.replay.playing import BLOCK_TOKENS, play, request, tokens_of

OK = RequestStatus.OK


async def test_every_request_is_sent_as_planned_and_every_token_counted() -> None:
    plan = [request(0, 20, 3, counted=False), request(30, 9, 5), request(60, 17, 1)]
    async with golden() as server:
        traces = await play(server.url, *plan, window_start_ms=20)
    bodies = encode_bodies(plan, "tiny", block_tokens=BLOCK_TOKENS, vocab_size=500)
    assert server.order == [20, 9, 17]
    assert [server.exchanges[n].body for n in (20, 9, 17)] == [json.loads(b) for b in bodies]
    assert traces.status.tolist() == [OK] * 3
    assert [tokens_of(traces, i) for i in range(3)] == [[1] * 3, [1] * 5, [1]]
    assert traces.planned_ns.tolist() == [r.at_ns for r in plan]
    assert (traces.sent_ns >= traces.planned_ns).all()
    assert traces.counted.tolist() == [False, True, True]
    assert traces.prompt_tokens.tolist() == traces.input_tokens.tolist() == [20, 9, 17]
    assert traces.output_tokens.tolist() == [3, 5, 1]
    assert (traces.window_start_ns, traces.window_end_ns) == (20_000_000, 10_000_000_000)


async def test_stamps_follow_the_servers_own() -> None:
    """On one clock: an event is seen after it was written, a request leaves before it arrives."""
    async with golden() as server:
        traces = await play(server.url, request(0, 8, 12), request(5, 16, 12))
    for index, exchange in enumerate((server.exchanges[8], server.exchanges[16])):
        start, end = traces.event_offsets[index : index + 2]
        seen = traces.event_ns[start:end] - traces.sent_ns[index]
        written = np.array(exchange.sent_ns[:12]) - exchange.arrived_ns
        assert len(seen) == 12
        assert (seen >= written).all()
        assert (np.diff(seen) >= 0).all()
        assert traces.end_ns[index] >= traces.event_ns[end - 1]


async def test_the_audit_says_how_the_client_kept_up() -> None:
    async with golden() as server:
        traces = await play(server.url, request(0, 8, 20))
    audit = traces.audit
    assert audit is not None
    assert 0 <= audit.send_late_p50_ms <= audit.send_late_p99_ms <= audit.send_late_max_ms
    assert audit.loop_lag_p99_ms is not None
    assert audit.loop_lag_p99_ms >= 0
    assert audit.cpu_share is not None
    assert audit.cpu_share > 0
    assert audit.events_per_read is not None
    assert audit.events_per_read >= 1
    assert audit.stamped_at == ("kernel" if sys.platform == "linux" else "read")
    assert audit.tokens_per_event == 1


async def test_the_loops_lag_is_taken_in_the_counted_window_only() -> None:
    async with golden() as server:
        plan = request(0, 8, 1, counted=False)
        traces = await play(server.url, plan, window_start_ms=60_000)
    assert traces.audit is not None
    assert traces.audit.loop_lag_p99_ms is None


async def test_sends_do_not_wait_for_earlier_requests() -> None:
    """A closed loop would never send the third, and the first would never be answered."""

    async def after_the_third(exchange: Exchange) -> None:
        await server.wait_for(24)
        await exchange.answer()

    async with golden({8: after_the_third, 16: after_the_third}) as server:
        traces = await play(server.url, request(0, 8), request(5, 16), request(10, 24))
    assert server.order == [8, 16, 24]
    assert traces.status.tolist() == [OK] * 3


async def test_a_hundred_open_requests_need_a_hundred_connections() -> None:
    async def after_the_last(exchange: Exchange) -> None:
        await server.wait_for(220)
        await exchange.answer()

    lengths = range(101, 221)
    async with golden(dict.fromkeys(lengths, after_the_last)) as server:
        traces = await play(server.url, *(request(i, n, 1) for i, n in enumerate(lengths)))
    assert traces.status.tolist() == [OK] * 120


async def test_the_last_stream_is_drained() -> None:
    """A request that arrives in the window is kept to its end, however long that takes."""

    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.3)
        await exchange.answer()

    async with golden({8: slow}) as server:
        traces = await play(server.url, request(0, 8, 4), request(1, 16, 1))
    assert tokens_of(traces, 0) == [1] * 4


async def test_several_tokens_per_event_are_counted_by_the_server() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(chunk(1))
        await exchange.write(chunk(4) + chunk(2) + chunk(1))
        await exchange.write(usage(8, 8) + DONE)
        await exchange.end()

    async with golden({8: answer}) as server:
        traces = await play(server.url, request(0, 8, 8))
    assert traces.status.tolist() == [OK]
    assert tokens_of(traces, 0) == [1, 4, 2, 1]
    assert traces.event_ns[1] <= traces.event_ns[2] <= traces.event_ns[3]


async def test_usage_counts_where_the_server_sends_no_ids() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.start()
        for count in (1, 3, 6):
            await exchange.write(chunk(1, ids=False, cumulative=count, prompt=8))
        await exchange.write(DONE)
        await exchange.end()

    async with golden({8: answer}) as server:
        traces = await play(server.url, request(0, 8, 6))
    assert tokens_of(traces, 0) == [1, 2, 3]


async def test_writes_split_inside_events_and_characters_change_nothing() -> None:
    stream = b": ping\r\n\r\n" + chunk(1) + chunk(2).replace(b"\n", b"\r\n") + usage(8, 3) + DONE

    async def answer(exchange: Exchange) -> None:
        await exchange.start()
        for at in range(0, len(stream), 7):
            await exchange.write(stream[at : at + 7])
        await exchange.end()

    async with golden({8: answer}) as server:
        traces = await play(server.url, request(0, 8, 3))
    assert stream[stream.index("é".encode()) :].decode()
    assert traces.status.tolist() == [OK]
    assert tokens_of(traces, 0) == [1, 2]


async def test_the_first_event_is_the_first_token_not_the_first_chunk() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(event({"choices": [{"index": 0, "text": "", "token_ids": []}]}))
        await exchange.write(b": waiting\n\n")
        await exchange.write(chunk(1))
        await exchange.write(usage(8, 1) + DONE)
        await exchange.end()

    async with golden({8: answer}) as server:
        traces = await play(server.url, request(0, 8, 1))
        written = server.exchanges[8].sent_ns
    assert tokens_of(traces, 0) == [1]
    # later after sending than the third write was after arriving
    waited_ns = traces.event_ns[0] - traces.sent_ns[0]
    assert waited_ns >= written[2] - server.exchanges[8].arrived_ns


async def test_a_body_above_a_mebibyte_is_sent() -> None:
    async with golden() as server:
        traces = await play(server.url, request(0, 300_000, 1))
    assert traces.prompt_tokens.tolist() == [300_000]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with golden() as server:
        traces = await play(server.url, request(0, 8, 1))
    assert traces.status.tolist() == [OK]


async def test_progress_goes_up_to_one() -> None:
    shares: list[float] = []
    async with golden() as server:
        plan = [request(at, at + 8, 1) for at in range(0, 600, 100)]
        await play(server.url, *plan, on_progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) > 1
    assert shares[-1] == 1.0


async def test_the_collector_rests_during_the_load_only() -> None:
    seen: list[bool] = []

    async def answer(exchange: Exchange) -> None:
        seen.append(gc.isenabled())
        await exchange.answer()

    async with golden({8: answer}) as server:
        await play(server.url, request(0, 8, 1))
    assert seen == [False]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


async def test_a_cancelled_replay_leaves_nothing_behind() -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async with golden({8: silent}) as server:
        before = asyncio.all_tasks()
        task = asyncio.create_task(play(server.url, request(0, 8), request(60_000, 16)))
        await server.wait_for(8)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        running = {t for t in asyncio.all_tasks() - before if not t.done()}
    assert {t.get_coro().__name__ for t in running} <= {"serve"}  # type: ignore[union-attr]
    assert not [t.name for t in threading.enumerate() if t.name.startswith("replay")]
    assert gc.isenabled()


async def test_an_answer_ends_though_the_server_keeps_the_connection() -> None:
    async def stay(exchange: Exchange) -> None:
        await exchange.answer()
        await server.wait_for(24)

    async with golden({8: stay}) as server:
        traces = await play(server.url, request(0, 8), request(1_500, 24, 1))
    assert traces.status.tolist() == [OK, OK]
    assert traces.end_ns[0] < 500_000_000


async def test_chats_are_as_long_as_the_server_says_words_are() -> None:
    async with golden() as server:
        plan = [request(0, 80, 3, counted=False), request(30, 200, 5), request(60, 121, 1)]
        traces = await play(server.url, *plan, api=Api.CHAT)
    assert server.order == [3 + 64, 3 + 512, 80, 200, 121]
    assert traces.status.tolist() == [OK] * 3
    assert traces.prompt_tokens.tolist() == [80, 200, 121]
    assert traces.audit is not None
    assert traces.audit.prompt_drift_pct == 0


async def test_a_server_that_does_not_count_prompts_cannot_be_sent_texts() -> None:
    async def uncounted(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(chunk(1) + DONE)
        await exchange.end()

    async with golden({67: uncounted}) as server:
        with pytest.raises(ReplayError, match="came to None and 515 tokens"):
            await play(server.url, request(0, 80), api=Api.CHAT)


async def test_the_next_turn_waits_for_the_answer_and_its_pause() -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.3)
        await exchange.answer()

    first, second, other = request(0, 8), request(10, 16), request(20, 24)
    plan = [
        replace(first, session_id="a"),
        replace(second, session_id="a", pause_ns=50_000_000),
        replace(other, session_id="b", pause_ns=1),
    ]
    async with golden({8: slow}) as server:
        traces = await play(server.url, *plan)
    assert server.order == [8, 24, 16]
    assert traces.status.tolist() == [OK] * 3
    assert traces.planned_ns[2] == 20_000_000
    waited_ns = traces.planned_ns[1] - traces.end_ns[0]
    assert waited_ns >= 50_000_000
    assert (traces.sent_ns >= traces.planned_ns).all()


async def test_a_turn_follows_one_that_failed() -> None:
    async def broken(exchange: Exchange) -> None:
        exchange.reset()

    plan = [
        replace(request(0, 8), session_id="a"),
        replace(request(9_000, 16), session_id="a", pause_ns=1_000_000),
    ]
    async with golden({8: broken}) as server:
        traces = await play(server.url, *plan)
    assert traces.status.tolist() == [RequestStatus.RESET, OK]
    assert traces.planned_ns[1] < 9_000_000_000


def test_turns_without_a_pause_keep_their_moments() -> None:
    one, two, three = (replace(request(at, 8), session_id="a") for at in (0, 1, 2))
    assert turns_of([one, two, replace(three, pause_ns=7)]) == {2: Turn(1, 7)}


async def test_a_path_before_the_api_is_kept() -> None:
    async with golden(path="/models/a") as server:
        traces = await play(f"{server.url}/models/a/", request(0, 8))
    assert traces.status.tolist() == [OK]


async def test_a_name_with_several_addresses_is_tried_for_one_that_answers() -> None:
    async with golden() as server:
        traces = await play(server.url.replace("127.0.0.1", "localhost"), request(0, 8))
    assert traces.status.tolist() == [OK]


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:0x1", "https://host"]
)
async def test_an_address_of_no_use_is_bad_input(url: str) -> None:
    with pytest.raises(InputError, match=r"^endpoint '.*': expected http://HOST:PORT$"):
        await play(url, request(0, 8))


async def test_a_name_that_nobody_knows_is_bad_input() -> None:
    with pytest.raises(
        InputError, match=r"^endpoint 'http://nobody.invalid': cannot be looked up"
    ):
        await play("http://nobody.invalid", request(0, 8))


async def test_an_empty_plan_is_refused() -> None:
    with pytest.raises(ReplayError, match="holds no request"):
        await play("http://127.0.0.1:9")


async def test_a_plan_out_of_order_is_refused() -> None:
    with pytest.raises(ReplayError, match="order"):
        await play("http://127.0.0.1:9", request(10, 8), request(0, 8))
