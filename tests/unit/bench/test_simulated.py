"""A simulated server plays ahead, and nobody can tell."""

import asyncio

import numpy as np
import pytest

from advisor.bench.simulated import SimBench, SimServer
from advisor.profile.window import split
from advisor.sim import hardware
from advisor.terms.job import ServerFacts
from advisor.terms.profile import Plan, Window
from advisor.terms.setting import Setting
from advisor.terms.traces import Look, Traces
from tests.unit.profile.builders import S, evenly

PROFILE = evenly(400, S // 2)
WINDOWS = split(PROFILE, windows=3, rounds=1, gap_ns=5 * S).search
SETTING = Setting.of("llama-3.1-8b", {"max_model_len": 8192})


def plan(window: Window, multiple: float, salt: int = 1) -> Plan:
    return Plan(window, multiple, salt, lead_in_ns=5 * S)


def played(bench: SimBench, plans: list[Plan]) -> tuple[list[Traces], list[bool]]:
    """The replays of one launch, and before which of them something was played ahead."""

    async def run() -> tuple[list[Traces], list[bool]]:
        found, ahead = [], []
        async with bench.serve(SETTING) as server:
            assert isinstance(server, SimServer)
            for each in plans:
                ahead.append(server._ahead is not None)
                found.append(await server.replay(each))
        return found, ahead

    return asyncio.run(run())


def test_what_was_played_ahead_is_what_is_asked_for() -> None:
    bench = SimBench(PROFILE, hardware("h100-sxm"), "llama-3.1-8b", seed=1)
    in_turns = [plan(window, multiple) for multiple in (1.0, 2.0) for window in WINDOWS]
    other = [plan(WINDOWS[0], 1.0), plan(WINDOWS[2], 1.0, salt=7), plan(WINDOWS[1], 3.0)]
    assert played(bench, in_turns)[1] == [False, False, False, False, True, True]
    for plans in (in_turns, other):
        found, ahead = played(bench, plans)
        assert any(ahead)
        for number, each in enumerate(plans):
            # a bench that never saw a window knows of none that follows; the launch is the same
            fresh = SimBench(PROFILE, hardware("h100-sxm"), "llama-3.1-8b", seed=1)
            alone = played(fresh, [plans[0], each])[0][1]
            for name in ("planned_ns", "end_ns", "event_ns", "event_offsets", "counted"):
                np.testing.assert_array_equal(getattr(found[number], name), getattr(alone, name))


@pytest.mark.parametrize(
    ("after_ns", "answer", "told"),
    # in mid-window; at a moment when everything has ended; without an answer
    [(-30 * S, True, False), (600 * S, True, True), (-30 * S, False, True)],
)
def test_what_an_early_stop_kept_from_being_seen_is_in_no_mean(
    after_ns: int, answer: bool, told: bool
) -> None:
    async def facts() -> ServerFacts:
        bench = SimBench(PROFILE, hardware("h100-sxm"), "llama-3.1-8b", seed=1)
        async with bench.serve(SETTING) as server:
            before = await server.facts()
            look = Look(after_ns, lambda _: answer)
            await server.replay(plan(WINDOWS[0], 1.0), look=look)
            return await server.facts(before)

    found = asyncio.run(facts())
    latencies = (found.ttft_s_sum, found.ttft_count, found.itl_s_sum, found.queue_time_s)
    assert [each is not None for each in latencies] == [told] * 4
    assert found.running_max is not None
