import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest

from advisor.replay.audit import judge_replay
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.traces import MISSING, ClientAudit, RequestStatus, Traces
from tests.unit.replay.golden import golden
from tests.unit.replay.playing import play, request


def audit(*, late_ms: float = 0.1, lag_ms: float | None = 1.0) -> ClientAudit:
    return ClientAudit(0.0, late_ms, late_ms, lag_ms, 0.3, 1.0, "read")


def traces(n: int = 200, client: ClientAudit | None = None) -> Traces:
    """n answered requests of 10 + 4 tokens, two tokens per event."""
    zeros = np.zeros(n, dtype=np.int64)
    return Traces(
        planned_ns=zeros,
        sent_ns=zeros,
        end_ns=zeros + 9,
        status=np.zeros(n, dtype=np.uint8),
        counted=np.ones(n, dtype=np.bool_),
        input_tokens=zeros + 10,
        prompt_tokens=zeros + 10,
        output_tokens=zeros + 4,
        event_offsets=np.arange(n + 1, dtype=np.int64) * 2,
        event_ns=np.arange(2 * n, dtype=np.int64),
        event_tokens=np.full(2 * n, 2, dtype=np.int32),
        window_start_ns=0,
        window_end_ns=10,
        audit=client,
    )


def outcome(
    seen: Traces, ttft_limit_ms: float | None = None, itl_limit_ms: float | None = None
) -> ReplayOutcome:
    return judge_replay(seen, ttft_limit_ms=ttft_limit_ms, itl_limit_ms=itl_limit_ms)[0]


@pytest.mark.parametrize(
    ("late_ms", "limit_ms", "expected"),
    [
        (9.9, None, ReplayOutcome.VALID),
        (10.1, None, ReplayOutcome.CLIENT_BOUND),
        (10.1, 100.0, ReplayOutcome.CLIENT_BOUND),
        (19.9, 1000.0, ReplayOutcome.VALID),
        (20.1, 1000.0, ReplayOutcome.CLIENT_BOUND),
    ],
)
def test_send_lateness_is_held_against_the_ttft_limit(
    late_ms: float, limit_ms: float | None, expected: ReplayOutcome
) -> None:
    assert outcome(traces(client=audit(late_ms=late_ms)), ttft_limit_ms=limit_ms) is expected


@pytest.mark.parametrize(
    ("lag_ms", "limit_ms", "expected"),
    [
        (9.9, None, ReplayOutcome.VALID),
        (10.1, 50.0, ReplayOutcome.CLIENT_BOUND),
        (19.9, 200.0, ReplayOutcome.VALID),
        (20.1, 200.0, ReplayOutcome.CLIENT_BOUND),
        (None, 200.0, ReplayOutcome.VALID),
    ],
)
def test_loop_lag_is_held_against_the_itl_limit(
    lag_ms: float | None, limit_ms: float | None, expected: ReplayOutcome
) -> None:
    assert outcome(traces(client=audit(lag_ms=lag_ms)), itl_limit_ms=limit_ms) is expected


def test_the_note_names_the_gate_and_the_figures() -> None:
    seen = traces(client=audit(late_ms=30, lag_ms=40))
    _, note = judge_replay(seen, ttft_limit_ms=500, itl_limit_ms=200)
    assert note == (
        "send lateness p99 30.0 ms, at most 10.0 ms allowed;"
        " event-loop lag p99 40.0 ms, at most 20.0 ms allowed"
    )


@pytest.mark.parametrize(
    ("wrong", "expected"), [(2, ReplayOutcome.VALID), (3, ReplayOutcome.MISMATCH)]
)
def test_more_than_a_hundredth_of_other_lengths_is_a_mismatch(
    wrong: int, expected: ReplayOutcome
) -> None:
    seen = traces()
    prompts = seen.prompt_tokens.copy()
    prompts[:wrong] = 11
    assert outcome(replace(seen, prompt_tokens=prompts)) is expected
    outputs = seen.event_tokens.copy()
    outputs[: 2 * wrong : 2] = 3
    assert outcome(replace(seen, event_tokens=outputs)) is expected


def test_the_note_counts_prompts_and_outputs() -> None:
    seen = traces()
    prompts, outputs = seen.prompt_tokens.copy(), seen.event_tokens.copy()
    prompts[1:5] = 12
    prompts[3] = MISSING
    outputs[6] = 9
    _, note = judge_replay(
        replace(seen, prompt_tokens=prompts, event_tokens=outputs),
        ttft_limit_ms=None,
        itl_limit_ms=None,
    )
    assert note == (
        "4 of 200 answered requests have other lengths than planned (3 prompts, 1 outputs);"
        " the first: 10 + 4 tokens planned, 12 + 4 seen"
    )


def test_an_unknown_prompt_length_contradicts_nothing() -> None:
    seen = traces()
    assert outcome(replace(seen, prompt_tokens=seen.prompt_tokens * 0 + MISSING)) is (
        ReplayOutcome.VALID
    )


def test_failed_and_uncounted_requests_are_not_held_to_their_lengths() -> None:
    seen = traces()
    wrong = replace(seen, prompt_tokens=seen.prompt_tokens + 1)
    failed = replace(wrong, status=np.full(200, RequestStatus.RESET, dtype=np.uint8))
    assert outcome(failed) is ReplayOutcome.VALID
    assert outcome(replace(wrong, counted=np.zeros(200, dtype=np.bool_))) is ReplayOutcome.VALID
    assert outcome(wrong) is ReplayOutcome.MISMATCH


async def test_a_stalled_interpreter_makes_the_replay_client_bound() -> None:
    """One call that never lets another thread in, as an extension module can be."""

    async def stall() -> None:
        await server.wait_for(8)
        sum(range(40_000_000))

    async with golden() as server:
        stalled = asyncio.create_task(stall())
        plan = [request(at, 8 + at, 1) for at in range(0, 400, 40)]
        seen = await play(server.url, *plan)
        await stalled
    verdict, note = judge_replay(seen, ttft_limit_ms=1000, itl_limit_ms=200)
    assert verdict is ReplayOutcome.CLIENT_BOUND
    assert "send lateness" in note


async def test_a_stalled_event_loop_holds_up_no_send() -> None:
    async def stall() -> None:
        await server.wait_for(8)
        time.sleep(0.2)  # noqa: ASYNC251 - the fault under test

    async with golden() as server:
        stalled = asyncio.create_task(stall())
        plan = [request(at, 8 + at, 1) for at in range(0, 400, 40)]
        seen = await play(server.url, *plan)
        await stalled
    assert (seen.sent_ns - seen.planned_ns).max() < 190_000_000
