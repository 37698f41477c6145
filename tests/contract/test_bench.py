"""What every bench does, whatever it serves with."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from advisor.bench.live import LiveBench
from advisor.bench.simulated import SimBench
from advisor.engine.vllm import VllmEngine
from advisor.measure.curves import curves
from advisor.measure.measure import measure
from advisor.profile.schedule import schedule
from advisor.replay.audit import judge_replay
from advisor.sim.hardware import hardware
from advisor.terms.errors import LaunchFailed
from advisor.terms.job import ServerFacts
from advisor.terms.outcome import ReplayOutcome, TrialState
from advisor.terms.profile import Plan, Profile, Request, Window, WindowRole
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, parse_target
from advisor.terms.traces import Look, RequestStatus, Traces
from advisor.tune.ports import Bench
from tests.contract.scripted_bench import DEFAULTS, Dials, ScriptedBench, failure
from tests.unit.profile.builders import S, profile_of

MODEL = "llama-3.1-8b"
KNOBS = ("max_num_seqs", "max_num_batched_tokens")
GOOD = Setting.of(MODEL, {"max_num_seqs": 32, "max_num_batched_tokens": 2048}, KNOBS)
#: vLLM refuses a token budget below the number of sequences.
BAD = Setting.of(MODEL, {"max_num_seqs": 32, "max_num_batched_tokens": 16}, KNOBS)
#: Two seconds of load: half a second before the window, one in it.
PROFILE = profile_of([Request(i * S // 40, 64, 6) for i in range(80)])
#: The same with answers that last beyond the window.
LONG = profile_of([Request(i * S // 40, 64, 60) for i in range(80)])
LEAD_IN = S // 2
WINDOW = Window("search-1", WindowRole.SEARCH, LEAD_IN, LEAD_IN + S)
COMMAND = [sys.executable, "-c", "import sys; from advisor.standin import main; sys.exit(main())"]


def plan(multiple: float = 1.0, salt: int = 1) -> Plan:
    return Plan(WINDOW, multiple, salt, LEAD_IN)


def scripted() -> ScriptedBench:
    return ScriptedBench(lambda s: Dials(start=failure() if s == BAD else None))


@pytest.fixture(
    name="bench",
    params=["scripted", "simulated", pytest.param("live", marks=pytest.mark.slow)],
)
def _bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "scripted":
        yield scripted()
    elif request.param == "simulated":
        yield SimBench(PROFILE, hardware("h100-sxm"), MODEL, seed=3)
    else:
        before = set(psutil.Process().children(recursive=True))
        yield LiveBench(PROFILE, VllmEngine(COMMAND, log_dir=tmp_path), MODEL)
        left = set(psutil.Process().children(recursive=True)) - before
        assert left == set(), "a server outlived its launch"


async def test_a_bench_says_what_is_under_test_and_that_it_is_simulated(bench: Bench) -> None:
    about = await bench.about()
    told = {field.name: getattr(about, field.name) for field in fields(about)}
    # a bench without GPUs says that it has none, not that it has 0
    assert told.pop("gpus") is None
    assert all(value not in ("", None) for value in told.values())
    # the stand-in is driven by the simulator, so what is measured on it is no measurement
    assert about.simulated


async def test_a_launch_says_what_it_runs_with(bench: Bench) -> None:
    async with bench.serve(GOOD) as server:
        resolved = dict(server.launch.resolved)
        assert {name: resolved[name] for name in KNOBS} == dict(GOOD.flags)
        assert server.launch.cold_start_s >= 0
        assert server.launch.ignored == ()
        tokens = server.launch.kv_cache_tokens
        assert tokens is not None
        assert tokens > 0


async def test_a_flag_that_was_not_given_is_resolved_by_the_server(bench: Bench) -> None:
    async with bench.serve(Setting.of(MODEL, {}, ("max_num_seqs",))) as server:
        assert isinstance(dict(server.launch.resolved)["max_num_seqs"], int)
        assert DEFAULTS.keys() <= dict(server.launch.resolved).keys()


async def test_a_setting_that_cannot_run_fails_its_launch_by_its_own_fault(bench: Bench) -> None:
    with pytest.raises(LaunchFailed) as error:
        async with bench.serve(BAD):
            pytest.fail("it came up")
    assert error.value.failure.state is TrialState.INFEASIBLE
    assert error.value.failure.message


async def test_a_replay_plays_its_plan_to_the_end(bench: Bench) -> None:
    heard: list[float] = []
    async with bench.serve(GOOD) as server:
        traces = await server.replay(plan(), heard.append)
    start, end = traces.window_start_ns, traces.window_end_ns
    assert (start, end) == (LEAD_IN, LEAD_IN + S)
    inside = traces.planned_ns[traces.counted]
    assert ((inside >= start) & (inside < end)).all()
    assert (traces.planned_ns[~traces.counted] < start).all()
    assert (traces.status == RequestStatus.OK).all()
    assert heard[-1] == 1.0
    assert all(0 <= share <= 1 for share in heard)
    assert_whole(traces)


def assert_whole(traces: Traces) -> None:
    received = np.add.reduceat(traces.event_tokens, traces.event_offsets[:-1])
    assert received.tolist() == traces.output_tokens.tolist()
    first = traces.event_ns[traces.event_offsets[:-1]]
    assert (first > traces.planned_ns).all()
    assert (traces.end_ns >= first).all()


async def test_a_replay_can_be_measured_and_scored(bench: Bench) -> None:
    targets = [parse_target("ttft:p95<=60s"), parse_target("errors<=20%")]
    async with bench.serve(GOOD) as server:
        traces = await server.replay(plan())
    # an idle machine is not promised to a test: only what the server did is judged here
    assert judge_replay(traces, [parse_target("ttft:p95<=1000000s")]) == (ReplayOutcome.VALID, "")
    measured = measure([curves(traces)] * 3, targets, 1.0, 0.95)
    shown = {found.metric: found for found in measured.percentiles}
    # a client that lags reads several events at once, and their gaps are 0: the tail is not
    assert 0 < shown[Metric.ITL].p99_ms < 60_000
    assert 0 < shown[Metric.TTFT].p99_ms < 60_000
    assert measured.error_rate == 0


async def test_a_multiple_brings_that_much_load_in_the_same_time(bench: Bench) -> None:
    counted = []
    async with bench.serve(GOOD) as server:
        for multiple in (0.5, 1.0, 2.0):
            traces = await server.replay(plan(multiple, salt=round(10 * multiple)))
            counted.append(int(traces.counted.sum()))
            assert traces.window_end_ns - traces.window_start_ns == WINDOW.duration_ns
    assert counted[1] == pytest.approx(2 * counted[0], abs=1)
    assert counted[2] == pytest.approx(2 * counted[1], abs=1)


async def test_so_many_at_once_come_at_once(bench: Bench) -> None:
    async with bench.serve(GOOD) as server:
        traces = await server.replay(replace(plan(), lead_in_ns=0, at_once=9))
    assert traces.planned_ns.tolist() == [0] * 9
    assert traces.counted.all()
    assert (traces.window_start_ns, traces.window_end_ns) == (0, WINDOW.duration_ns)
    assert (traces.status == RequestStatus.OK).all()
    assert_whole(traces)


async def test_facts_are_the_change_over_a_replay(bench: Bench) -> None:
    async with bench.serve(GOOD) as server:
        before = await server.facts()
        traces = await server.replay(plan())
        facts = await server.facts(before)
    assert isinstance(facts, ServerFacts)
    if not isinstance(bench, ScriptedBench):
        assert facts.generation_tokens == traces.output_tokens.sum()
        assert facts.prompt_tokens == traces.input_tokens.sum()
        assert facts.preemptions == 0


async def test_what_is_settled_is_ended_and_the_next_replay_is_undisturbed(bench: Bench) -> None:
    seen = list[Traces]()

    def settled(so_far: Traces) -> bool:
        seen.append(so_far)
        return len(seen) == 1

    look = Look(0, settled)
    if isinstance(bench, LiveBench | SimBench):
        bench = replace(bench, profile=LONG)
    async with bench.serve(GOOD) as server:
        cut = await server.replay(plan(), look=look)
        before = await server.facts()
        whole = await server.replay(plan(salt=2), look=look)
        after = await server.facts(before)
    given_up = cut.status == RequestStatus.STOPPED
    assert given_up.any()
    assert (cut.status[~given_up] == RequestStatus.OK).all()
    assert (cut.end_ns[given_up] >= cut.window_end_ns).all()
    assert cut.window_end_ns <= seen[0].end_ns[given_up].max()
    assert_whole(whole)
    if isinstance(bench, LiveBench):  # what was given up is not served any more
        assert before.running_max == before.waiting_max == 0
        assert after.generation_tokens == whole.output_tokens.sum()


async def test_a_launch_that_is_left_by_an_error_is_over(bench: Bench) -> None:
    with contextlib.suppress(KeyError):
        async with bench.serve(GOOD):
            raise KeyError
    async with bench.serve(GOOD) as server:
        assert_whole(await server.replay(plan()))


@pytest.mark.parametrize("make", [scripted, lambda: sim(PROFILE)])
async def test_equal_launches_of_what_is_not_real_give_equal_traces(make: object) -> None:
    found = []
    for _ in range(2):
        assert callable(make)
        bench: Bench = make()
        async with bench.serve(GOOD) as server:
            found.append([await server.replay(plan(m)) for m in (1.0, 2.0)])
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.event_ns, other.event_ns)


def sim(profile: Profile, seed: int = 3) -> SimBench:
    return SimBench(profile, hardware("h100-sxm"), MODEL, seed)


async def test_the_simulator_plays_the_same_schedule_that_a_real_server_gets() -> None:
    async with sim(PROFILE).serve(GOOD) as server:
        traces = await server.replay(plan(1.5))
    planned = schedule(PROFILE, plan(1.5))
    assert traces.planned_ns.tolist() == [request.at_ns for request in planned]
    assert traces.counted.tolist() == [request.counted for request in planned]
    assert traces.output_tokens.tolist() == [request.output_length for request in planned]


async def test_fresh_simulated_launches_of_one_setting_differ_a_little() -> None:
    """Launches are replicates of the statistics, so they must not be copies."""
    means = []
    for salt in (1, 2):
        async with sim(PROFILE).serve(GOOD) as server:
            traces = await server.replay(plan(salt=salt))
            means.append(float((traces.end_ns - traces.planned_ns).mean()))
    assert means[0] != means[1]
    assert means[0] == pytest.approx(means[1], rel=0.2)
