"""Turns that wait for an answer: the same in both forms, and as the load generator sends them."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.replay.turns import turns_of
from advisor.sim import EngineConfig
from advisor.sim.cost import INGEST_NS
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus
from tests.unit.sim.loads import SECOND, engine, play
from tests.unit.sim.test_scheduler import prompt_ids
from tests.unit.sim.test_simulate import assert_equal, tiny_pool

MS = 1_000_000
REQUESTS = st.lists(
    # (at ms, prompt, output, shared prefix or none, session or none, pause ms or none)
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 200),
        st.integers(1, 60),
        st.integers(0, 3),
        st.integers(0, 3),
        st.none() | st.integers(0, 200),
    ),
    min_size=1,
    max_size=14,
)
Row = tuple[int, int, int, int, int, int | None]


def planned(rows: list[Row]) -> list[PlannedRequest]:
    return [
        PlannedRequest(
            ms * MS,
            a,
            b,
            prompt_ids(i, a, prefix),
            True,
            session_id=str(session) if session else None,
            pause_ns=pause * MS if session and pause is not None else None,
        )
        for i, (ms, a, b, prefix, session, pause) in enumerate(sorted(rows, key=lambda r: r[0]))
    ]


@settings(deadline=None)
@given(REQUESTS, st.integers(17, 60), st.booleans(), st.booleans())
def test_each_turn_is_sent_its_pause_after_the_answer_before_it(
    rows: list[Row], blocks: int, caching: bool, asynchronous: bool
) -> None:
    requests = planned(rows)
    # Some have no place in its context, and fail at once.
    config = replace(tiny_pool(blocks, 64, 4, caching), async_scheduling=asynchronous)
    run = play(requests, config)
    assert_equal(run, play(requests, config, compiled=False))
    traces, turns = run.traces, turns_of(requests)
    for i, request in enumerate(requests):
        turn = turns.get(i)
        at_ns = request.at_ns if turn is None else traces.end_ns[turn.before] + turn.pause_ns
        assert traces.planned_ns[i] == traces.sent_ns[i] == at_ns
        served = request.input_length + request.output_length <= config.max_model_len
        assert (traces.status[i] == RequestStatus.OK) == served
        if served:
            assert traces.event_ns[traces.event_offsets[i]] > at_ns + INGEST_NS
            assert traces.end_ns[i] > traces.planned_ns[i]
        else:
            assert traces.end_ns[i] == at_ns


def conversation(pause_ms: int | None, turns: int = 6) -> list[PlannedRequest]:
    pause = None if pause_ms is None else pause_ms * MS
    return [PlannedRequest(i * MS, 50, 20, (), True, "a", pause) for i in range(turns)]


def test_people_who_wait_for_answers_are_never_served_beside_themselves() -> None:
    config: EngineConfig = engine()
    together, in_turn = play(conversation(None), config), play(conversation(700), config)
    assert together.timeline.running.max() == 6
    assert in_turn.timeline.running.max() == 1
    gaps = in_turn.traces.planned_ns[1:] - in_turn.traces.end_ns[:-1]
    assert (gaps == 700 * MS).all()
    assert in_turn.traces.end_ns[-1] > 5 * 700 * MS + SECOND // 10


def test_many_conversations_of_one_moment_come_in_the_order_of_the_load() -> None:
    requests = [
        PlannedRequest(0, 40, 3, (), True, str(i % 40), 10 * MS if i >= 40 else None)
        for i in range(120)
    ]
    run = play(requests, engine())
    assert_equal(run, play(requests, engine(), compiled=False))
    first = run.traces.event_ns[run.traces.event_offsets[:-1]]
    for start in (0, 40, 80):
        assert (np.diff(first[start : start + 40]) >= 0).all()
