"""When a warm-up has settled, how large its rounds are, and that it ends whatever happens."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.bench.warmup import Round, Shapes, is_settled, warm_up
from advisor.terms.profile import PlannedRequest, Request
from advisor.terms.traces import RequestStatus, Traces
from tests.unit.profile.builders import S, profile_of

CALM = Round(at_once=8, ttft_s=0.2, itl_s=0.02, unqueued_s=0.1)
#: Ten a second, each 21 tokens; one long prompt.
PROFILE = profile_of([Request(i * S // 10, 500 if i == 3 else 50, 21) for i in range(100)])
SHAPES = Shapes(PROFILE, load=1.0, max_num_seqs=None)


def traces(requests: Sequence[PlannedRequest], ttft_s: float, itl_s: float) -> Traces:
    """All sent at 0 and served side by side, each token an event."""
    n, tokens = len(requests), [request.output_length for request in requests]
    offsets = np.concatenate(([0], np.cumsum(tokens))).astype(np.int64)
    steps = np.concatenate([ttft_s + itl_s * np.arange(count) for count in tokens])
    event_ns = np.round(steps * 1e9).astype(np.int64)
    whole = np.zeros(n, dtype=np.int64)
    return Traces(
        planned_ns=whole,
        sent_ns=whole,
        end_ns=event_ns[offsets[1:] - 1],
        status=np.full(n, RequestStatus.OK, dtype=np.uint8),
        counted=np.zeros(n, dtype=np.bool_),
        input_tokens=whole,
        prompt_tokens=whole,
        output_tokens=np.array(tokens, dtype=np.int64),
        event_offsets=offsets,
        event_ns=event_ns,
        event_tokens=np.ones(len(event_ns), dtype=np.int32),
        window_start_ns=0,
        window_end_ns=1,
    )


@dataclass
class Server:
    """Slow for its first requests, or slower in every round; a round takes a second."""

    cold_for: int = 0
    slows_down: bool = False
    rounds: list[list[PlannedRequest]] = field(default_factory=list)

    async def play(self, requests: list[PlannedRequest]) -> Traces:
        served = sum(len(round_) for round_ in self.rounds)
        self.rounds.append(requests)
        slow = 20.0 if served < self.cold_for else 1.0
        if self.slows_down:
            slow = 1.5 ** len(self.rounds)
        return traces(requests, 0.1 * slow, 0.02 * slow)

    def clock(self) -> float:
        return float(len(self.rounds))


@pytest.mark.parametrize(
    ("after", "settled"),
    [
        (CALM, True),
        (replace(CALM, ttft_s=0.219), True),
        (replace(CALM, ttft_s=0.181), True),
        (replace(CALM, ttft_s=0.221), False),
        (replace(CALM, ttft_s=0.179), False),
        (replace(CALM, itl_s=0.0179), False),
        (replace(CALM, itl_s=0.0221), False),
        (replace(CALM, at_once=9), False),
        (replace(CALM, itl_s=None), False),
        # how long the first one took sizes the next round, and decides nothing
        (replace(CALM, unqueued_s=9.0), True),
    ],
)
def test_two_rounds_agree_within_a_tenth(after: Round, settled: bool) -> None:
    assert is_settled(CALM, after) is settled


def test_differences_that_are_the_machines_do_not_count() -> None:
    fast = Round(4, 0.010, 0.001, 0.01)
    assert is_settled(fast, replace(fast, ttft_s=0.0149, itl_s=0.0019))
    assert not is_settled(fast, replace(fast, ttft_s=0.016))
    assert not is_settled(fast, replace(fast, itl_s=0.0021))
    nothing = Round(4, None, None, None)
    assert is_settled(nothing, nothing)


def test_a_round_is_read_from_what_succeeded() -> None:
    requests = SHAPES.requests(4)
    played = traces(requests, 0.1, 0.02)
    assert Round.of(played) == Round(4, 0.1, 0.02, 0.1)
    played.event_ns[: played.event_offsets[1]] += S  # the first one is slow, then it fails
    assert Round.of(played).ttft_s == 0.1
    played.status[0] = RequestStatus.RESET
    assert Round.of(played).unqueued_s == 0.1
    played.status[:] = RequestStatus.HTTP
    assert Round.of(played) == Round(4, None, None, None)


@pytest.mark.parametrize(
    ("load", "ttft_s", "itl_s", "at_once"),
    [
        (1.0, 0.53, 0.02, 10),  # 0.93 s each at ten a second
        (2.0, 0.53, 0.02, 19),
        (1.0, 0.01, 0.001, 4),
        (1.0, 0.1, 1.0, 100),  # all of them
        (1.0, 0.55, None, 6),
    ],
)
def test_as_many_at_once_as_would_be_open(
    load: float, ttft_s: float, itl_s: float | None, at_once: int
) -> None:
    shapes = Shapes(PROFILE, load, None)
    assert shapes.in_flight(Round(4, ttft_s, itl_s, ttft_s)) == at_once


def test_never_more_at_once_than_may_run() -> None:
    busy, few = Round(4, 9.0, 9.0, 9.0), Shapes(PROFILE, 1.0, 7)
    assert few.in_flight(busy) == 7
    assert Shapes(PROFILE, 1.0, 2).in_flight(busy) == 2
    assert Shapes(PROFILE, 1.0, 2).fewest == 2
    crowd = profile_of([Request(0, 10, 5)] * 1000)
    assert Shapes(crowd, 1.0, None).in_flight(busy) == 256
    assert SHAPES.in_flight(Round(4, None, None, None)) == 4


@given(st.integers(1, 300))
def test_a_round_has_the_longest_prompt_once_and_new_prompts_only(at_once: int) -> None:
    first, second = SHAPES.requests(at_once), SHAPES.requests(at_once)
    # four prompts of the longest's length are shared by those beside it
    beside = min(50, 2000 // max(at_once - 1, 1))
    assert [request.input_length for request in first] == [500] + [beside] * (at_once - 1)
    assert {request.output_length for request in first} == {16}
    assert all(len(each.block_ids) == -(-each.input_length // 16) for each in first)
    blocks = [block for request in first + second for block in request.block_ids]
    assert len(set(blocks)) == len(blocks)


async def test_a_server_that_is_fast_at_once_is_warmed_in_three_rounds() -> None:
    server = Server()
    warmed = await warm_up(SHAPES, server.play, 60, server.clock)
    assert warmed.note == ""
    # 0.1 s and 20 gaps of 0.02 s: five open at a time
    assert [round_.at_once for round_ in warmed.rounds] == [4, 4, 4]


async def test_rounds_become_as_large_as_the_profile_needs() -> None:
    server, shapes = Server(), Shapes(PROFILE, 4.0, None)
    warmed = await warm_up(shapes, server.play, 60, server.clock)
    assert warmed.note == ""
    assert [round_.at_once for round_ in warmed.rounds] == [4, 20, 20]


async def test_a_cold_server_is_warmed_until_it_is_fast() -> None:
    server = Server(cold_for=9)
    warmed = await warm_up(SHAPES, server.play, 60, server.clock)
    assert warmed.note == ""
    assert warmed.rounds[0].itl_s == pytest.approx(0.4)
    assert [each.itl_s for each in warmed.rounds[-2:]] == pytest.approx([0.02, 0.02])


async def test_an_even_cold_phase_that_outlasts_three_rounds_is_not_seen() -> None:
    """Known, and told in docs/measuring.md: nothing says how fast it should be."""
    shapes, server = Shapes(PROFILE, 1.0, 4), Server(cold_for=1000)
    warmed = await warm_up(shapes, server.play, 60, server.clock)
    assert warmed.note == ""
    assert [each.at_once for each in warmed.rounds] == [4, 4, 4]
    assert warmed.rounds[-1].itl_s == pytest.approx(0.4)


async def test_a_server_that_never_settles_ends_its_warm_up_and_says_so() -> None:
    server = Server(slows_down=True)
    warmed = await warm_up(Shapes(PROFILE, 1.0, 4), server.play, 60, server.clock)
    assert len(server.rounds) == 8
    assert warmed.note == (
        "the warm-up did not settle in 8 rounds: with 4 requests at once "
        "TTFT 1708.6 ms, ITL 341.7 ms, then with 4 TTFT 2562.9 ms, ITL 512.6 ms"
    )


@pytest.mark.parametrize(("most_s", "rounds"), [(0.0, 3), (4.0, 5)])
async def test_a_warm_up_is_bounded_in_time(most_s: float, rounds: int) -> None:
    server = Server(slows_down=True)
    warmed = await warm_up(SHAPES, server.play, most_s, server.clock)
    assert len(server.rounds) == rounds
    assert f"in {rounds} rounds" in warmed.note
