"""Whole replays: exact skipping, determinism, and the shape of what comes out."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.sim import EngineConfig, SimRun, Timeline, simulate
from advisor.sim.cost import INGEST_NS
from advisor.terms.load import Load
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import MISSING, RequestStatus
from tests.unit.sim.loads import SECOND, at_once, engine, play, poisson
from tests.unit.sim.test_scheduler import prompt_ids


def tiny_pool(blocks: int, budget: int, seqs: int, caching: bool) -> EngineConfig:
    config = engine(
        max_num_batched_tokens=budget, max_num_seqs=seqs, enable_prefix_caching=caching
    )
    return replace(config, max_model_len=240, memory=replace(config.memory, num_blocks=blocks))


def assert_equal(one: SimRun, other: SimRun) -> None:
    for name in ("status", "end_ns", "event_offsets", "event_ns", "prompt_tokens"):
        np.testing.assert_array_equal(getattr(one.traces, name), getattr(other.traces, name), name)
    for column in fields(Timeline):
        np.testing.assert_array_equal(
            getattr(one.timeline, column.name), getattr(other.timeline, column.name), column.name
        )
    assert one.facts == other.facts


@settings(max_examples=120, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 150), st.integers(1, 90), st.integers(0, 3)),
        min_size=1,
        max_size=14,
    ),
    blocks=st.integers(17, 60),
    budget=st.integers(8, 100),
    seqs=st.integers(1, 8),
    threshold=st.sampled_from([0, 0, 0, 5, 20]),
    caching=st.booleans(),
    chunked=st.booleans(),
    asynchronous=st.booleans(),
)
def test_compiled_equals_plain(
    requests: list[tuple[int, int, int, int]],
    blocks: int,
    budget: int,
    seqs: int,
    threshold: int,
    caching: bool,
    chunked: bool,
    asynchronous: bool,
) -> None:
    config = replace(
        tiny_pool(blocks, max(budget, seqs) if chunked else 240, seqs, caching),
        long_prefill_token_threshold=threshold,
        enable_chunked_prefill=chunked,
        async_scheduling=asynchronous,
    )
    load = Load.of(
        [
            PlannedRequest(ms * 1_000_000, a, b, prompt_ids(i, a, prefix), True)
            for i, (ms, a, b, prefix) in enumerate(requests)
        ],
        24,
    )

    def run(compiled: bool) -> SimRun:
        return simulate(load, config, window_start_ns=0, window_end_ns=SECOND, compiled=compiled)

    assert_equal(run(True), run(False))


def test_compiled_equals_plain_in_a_large_overload() -> None:
    load = poisson(6, 120, 2000, 400)
    config = engine("rtx-4090", max_model_len=8192)
    assert_equal(play(load, config), play(load, config, compiled=False))
    assert play(load, config).facts.preemptions


def test_compiled_equals_plain_while_long_prompts_are_prefilled_in_chunks() -> None:
    load = poisson(3, 40, 5000, 60)
    for blocks in (700, 20_000):
        config = engine(max_num_batched_tokens=256)
        config = replace(config, memory=replace(config.memory, num_blocks=blocks))
        assert_equal(play(load, config), play(load, config, compiled=False))


@pytest.mark.parametrize(("asynchronous", "running"), [(False, [1, 2, 2]), (True, [1, 1, 2])])
def test_an_arrival_at_the_very_end_of_a_step_joins_the_next_to_be_chosen(
    asynchronous: bool, running: list[int]
) -> None:
    first = PlannedRequest(0, 100, 50, (), True)
    config = engine(async_scheduling=asynchronous)
    ends = play([first], config).timeline.step_end_ns
    for step in (3, 20):
        second = PlannedRequest(int(ends[step]) - INGEST_NS, 100, 5, (), True)
        run = play([first, second], config)
        assert_equal(run, play([first, second], config, compiled=False))
        assert run.timeline.running[step : step + 3].tolist() == running


def test_same_seed_same_run_and_another_launch_drifts_a_little() -> None:
    load, config = poisson(5, 60, 800, 100), engine()

    def ends(seed: int) -> np.typing.NDArray[np.int64]:
        return simulate(
            Load.of(load, 512), config, window_start_ns=0, window_end_ns=12 * SECOND, seed=seed
        ).traces.end_ns

    np.testing.assert_array_equal(ends(3), ends(3))
    spent = [(ends(seed) - play(load, config).traces.planned_ns).mean() for seed in range(8)]
    assert len(set(spent)) == 8
    assert max(spent) / min(spent) < 1.1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 120), st.integers(1, 100)), min_size=2, max_size=10),
    st.integers(17, 30),
)
def test_a_pool_for_everything_never_preempts(
    requests: list[tuple[int, int]], blocks: int
) -> None:
    planned = [PlannedRequest(0, a, b, (), True) for a, b in requests]
    small = play(planned, tiny_pool(blocks, 64, 8, caching=True))
    large = play(planned, tiny_pool(400, 64, 8, caching=True))
    assert large.facts.preemptions == 0
    assert small.facts.preemptions is not None
    assert small.timeline.used_blocks.max() <= blocks - 1


@pytest.mark.parametrize("seed", range(3))
def test_more_kv_never_means_more_preemptions_under_a_recorded_kind_of_load(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(SECOND / 8, 200)).astype(int).tolist()
    lengths = rng.integers(20, 180, (200, 2)).tolist()
    load = [PlannedRequest(t, a, b, (), True) for t, (a, b) in zip(at, lengths, strict=True)]
    found = [
        play(load, replace(tiny_pool(blocks, 256, 32, True), max_model_len=400)).facts.preemptions
        for blocks in (50, 100, 200, 400, 800)
    ]
    assert found == sorted(found, reverse=True)  # type: ignore[type-var]


def test_every_request_ends_with_all_its_tokens_in_the_order_given() -> None:
    load = poisson(5, 80, 500, 60)
    load.reverse()
    traces = play(load, engine()).traces
    assert (traces.status == RequestStatus.OK).all()
    np.testing.assert_array_equal(np.diff(traces.event_offsets), traces.output_tokens)
    np.testing.assert_array_equal(traces.planned_ns, [each.at_ns for each in load])
    for row in range(len(traces)):
        events = traces.event_ns[traces.event_offsets[row] : traces.event_offsets[row + 1]]
        assert events[0] > traces.planned_ns[row]
        assert (np.diff(events) > 0).all()
        assert events[-1] == traces.end_ns[row]
    assert traces.audit is not None
    assert traces.audit.stamped_at == "virtual"


def test_a_request_beyond_max_model_len_is_refused_at_once() -> None:
    load = [
        PlannedRequest(SECOND, 100, 10, (), True),
        PlannedRequest(2 * SECOND, 8000, 200, (), True),
    ]
    run = play(load, engine())
    assert run.traces.status.tolist() == [RequestStatus.OK, RequestStatus.HTTP]
    assert run.traces.end_ns[1] == 2 * SECOND
    assert run.traces.prompt_tokens.tolist() == [100, MISSING]
    assert run.traces.event_offsets.tolist() == [0, 10, 10]
    assert run.facts.generation_tokens == 10


def test_nothing_served_is_an_empty_run() -> None:
    run = play(at_once(2, 8192, 8192), engine())
    assert len(run.traces.event_ns) == 0
    assert run.facts.running_max == 0
    assert play([], engine()).traces.event_offsets.tolist() == [0]


def test_facts_count_prefix_hits_of_a_shared_system_prompt() -> None:
    load = [PlannedRequest(i * SECOND, 1100, 5, (1, 2, 100 + i), True) for i in range(10)]
    run = play(load, engine())
    assert run.facts.prefix_cache_queries == 11_000
    # All but the first find 1024 shared tokens.
    assert run.facts.prefix_cache_hits == 9 * 1024
    off = play(load, engine(enable_prefix_caching=False))
    assert off.facts.prefix_cache_hits == 0


@pytest.mark.parametrize("load", [poisson(5, 300, 1000, 200)])
def test_timeline_accounts_for_every_token(load: list[PlannedRequest]) -> None:
    run = play(load, engine())
    assert (np.diff(run.timeline.step_end_ns) > 0).all()
    assert run.facts.running_max == run.timeline.running.max()
    assert run.facts.generation_tokens == run.traces.event_tokens.sum()
    assert 0 < run.timeline.kv_cache_usage.max() <= 1
