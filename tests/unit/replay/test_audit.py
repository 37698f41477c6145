import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest

from advisor.replay.audit import gates_line, judge_replay
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.target import parse_target
from advisor.terms.traces import MISSING, ClientAudit, RequestStatus, Traces
from tests.unit.replay.golden import golden
from tests.unit.replay.playing import play, request


def audit(
    *, late_ms: float = 0.1, lag_ms: float | None = 1.0, stamp_late_ms: float | None = None
) -> ClientAudit:
    by = "read" if stamp_late_ms is None else "kernel"
    return ClientAudit(0.0, late_ms, late_ms, lag_ms, 0.3, 1.0, by, stamp_late_ms)


def traces(
    n: int = 200, client: ClientAudit | None = None, ttft_ms: float = 0, itl_ms: float = 0
) -> Traces:
    """n answered requests of 10 + 4 tokens, two tokens per event."""
    zeros = np.zeros(n, dtype=np.int64)
    pairs = np.tile([ttft_ms * 1e6, (ttft_ms + itl_ms) * 1e6], n).astype(np.int64)
    return Traces(
        planned_ns=zeros,
        sent_ns=zeros,
        end_ns=pairs[1::2],
        status=np.zeros(n, dtype=np.uint8),
        counted=np.ones(n, dtype=np.bool_),
        input_tokens=zeros + 10,
        prompt_tokens=zeros + 10,
        output_tokens=zeros + 4,
        event_offsets=np.arange(n + 1, dtype=np.int64) * 2,
        event_ns=pairs,
        event_tokens=np.full(2 * n, 2, dtype=np.int32),
        window_start_ns=0,
        window_end_ns=10,
        audit=client,
    )


def outcome(seen: Traces, *targets: str) -> ReplayOutcome:
    return judge_replay(seen, [parse_target(text) for text in targets])[0]


VALID, CLIENT_BOUND = ReplayOutcome.VALID, ReplayOutcome.CLIENT_BOUND


@pytest.mark.parametrize(
    ("late_ms", "target", "expected"),
    [
        (9.9, "itl:p99<=50ms", VALID),
        (10.1, "itl:p99<=50ms", CLIENT_BOUND),
        (10.1, "ttft:p95<=100ms", CLIENT_BOUND),
        (19.9, "ttft:p95<=1000ms", VALID),
        (20.1, "ttft:p95<=1000ms", CLIENT_BOUND),
        (20.1, "ttft:p95<=2s", VALID),
        (20.1, "e2e:p95<=2s", VALID),
        (20.1, "ttft:p95<=0.5x", CLIENT_BOUND),
    ],
)
def test_send_lateness_is_held_against_the_limits_from_the_plan(
    late_ms: float, target: str, expected: ReplayOutcome
) -> None:
    assert outcome(traces(client=audit(late_ms=late_ms)), target) is expected


@pytest.mark.parametrize(
    ("ttft_ms", "expected"), [(0, VALID), (800, VALID), (900, CLIENT_BOUND), (1100, CLIENT_BOUND)]
)
def test_near_the_limit_less_lateness_is_allowed(ttft_ms: float, expected: ReplayOutcome) -> None:
    seen = traces(client=audit(late_ms=15), ttft_ms=ttft_ms)
    assert outcome(seen, "ttft:p95<=1000ms") is expected


def test_the_tightest_target_sets_the_gate() -> None:
    seen = traces(client=audit(late_ms=25))
    assert outcome(seen, "ttft:p95<=2s", "e2e:p95<=100s") is VALID
    assert outcome(seen, "ttft:p95<=2s", "e2e:p95<=1s") is CLIENT_BOUND


@pytest.mark.parametrize(
    ("lag_ms", "limit", "expected"),
    [
        (9.9, "50ms", VALID),
        (10.1, "50ms", CLIENT_BOUND),
        (19.9, "200ms", VALID),
        (20.1, "200ms", CLIENT_BOUND),
        (None, "200ms", VALID),
    ],
)
def test_where_reads_are_stamped_their_lag_is_held_against_the_itl_limit(
    lag_ms: float | None, limit: str, expected: ReplayOutcome
) -> None:
    assert outcome(traces(client=audit(lag_ms=lag_ms)), f"itl:p99<={limit}") is expected


@pytest.mark.parametrize(
    ("stamp_late_ms", "itl_ms", "expected"),
    [(0.0, 0, VALID), (19.9, 0, VALID), (20.1, 0, CLIENT_BOUND), (15, 120, CLIENT_BOUND)],
)
def test_where_the_kernel_stamps_a_lagging_client_may_be_right(
    stamp_late_ms: float, itl_ms: float, expected: ReplayOutcome
) -> None:
    client = audit(lag_ms=500, stamp_late_ms=stamp_late_ms)
    assert outcome(traces(client=client, itl_ms=itl_ms), "itl:p99<=200ms") is expected


def test_failures_do_not_hide_a_late_client() -> None:
    """Their latencies are infinite, and so is the way to the limit: the limit's share holds."""
    failed = replace(
        traces(client=audit(late_ms=30)), status=np.full(200, RequestStatus.RESET, dtype=np.uint8)
    )
    assert outcome(failed, "ttft:p95<=1000ms") is CLIENT_BOUND


def test_the_note_names_the_gate_and_the_figures() -> None:
    seen = traces(client=audit(late_ms=30, lag_ms=40))
    targets = [parse_target("ttft:p95<=500ms"), parse_target("itl:p99<=200ms")]
    _, note = judge_replay(seen, targets)
    assert note == (
        "send lateness p99 30.0 ms, at most 10.0 ms allowed;"
        " client lag p99 40.0 ms, at most 20.0 ms allowed"
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
    _, note = judge_replay(replace(seen, prompt_tokens=prompts, event_tokens=outputs), [])
    assert note == (
        "4 of 200 answered requests have other lengths than planned (3 prompts, 1 outputs);"
        " the first: 10 + 4 tokens planned, 12 + 4 seen"
    )


@pytest.mark.parametrize(
    ("seen_tokens", "expected"),
    [(204, VALID), (210, VALID), (190, VALID), (211, ReplayOutcome.MISMATCH)],
)
def test_prompts_sent_as_text_may_drift_a_little(
    seen_tokens: int, expected: ReplayOutcome
) -> None:
    base = traces(client=replace(audit(), text_prompts=True))
    seen = replace(
        base,
        input_tokens=base.input_tokens * 20,
        prompt_tokens=base.input_tokens * 0 + seen_tokens,
    )
    assert outcome(seen) is expected


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
    verdict, note = judge_replay(
        seen, [parse_target("ttft:p95<=1s"), parse_target("itl:p99<=200ms")]
    )
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


def test_the_gates_can_be_told_before_anything_is_measured() -> None:
    texts = ("ttft:p95<=2s", "e2e:p95<=1s", "itl:p99<=300ms", "ttft:p99<=0.6x", "errors<=1%")
    said = gates_line([parse_target(text) for text in texts])
    assert "than: sends 20 ms, stamps 30 ms; or than 10% of the way" in said
    assert gates_line([parse_target("ttft:p99<=0.6x")]).endswith("later at p99 than 10 ms")
