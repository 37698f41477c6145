"""Warm-up and drain on a running stand-in."""

import asyncio
import logging
import sys
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from advisor.bench.live import LiveBench
from advisor.engine.vllm import VllmEngine
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan, Request, Window, WindowRole
from advisor.terms.setting import Setting
from tests.unit.profile.builders import S, profile_of

pytestmark = pytest.mark.slow

PROFILE = profile_of([Request(i * S // 20, 64, 5) for i in range(20)])
PLAN = Plan(Window("search-1", WindowRole.SEARCH, 0, S // 2), 1.0, salt=5, lead_in_ns=0)
COMMAND = [sys.executable, "-m", "advisor.standin"]


def bench(folder: Path, drain_timeout_s: float = 20.0) -> LiveBench:
    engine = VllmEngine(COMMAND, log_dir=folder)
    return LiveBench(PROFILE, engine, "llama-3.1-8b", drain_timeout_s=drain_timeout_s)


def setting(fault: str) -> Setting:
    return Setting.of("llama-3.1-8b", {"sim_fault": fault, "max_num_seqs": 4})


async def test_a_cold_server_is_fast_before_anything_counts(tmp_path: Path) -> None:
    async with bench(tmp_path).serve(setting("cold:8")) as server:
        rounds = server.warmed.rounds
        served = await server.facts()
        traces = await server.replay(PLAN)
        doubt = server.doubt(await server.facts(served))
    assert doubt == (ReplayOutcome.VALID, server.warmed.note)
    assert served.prompt_tokens == 64 * 4 * len(rounds)
    cold, warm = rounds[0].itl_s, float(np.median(np.diff(traces.event_ns[:5]))) / 1e9
    assert cold is not None
    assert warm < cold / 3, "twenty times as fast, but for a busy machine"


async def test_a_server_that_never_settles_is_measured_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="advisor.bench.live"):
        async with bench(tmp_path).serve(setting("slowing")) as server:
            before = await server.facts()
            await server.replay(PLAN)
            outcome, note = server.doubt(await server.facts(before))
    assert outcome is ReplayOutcome.VALID
    assert note.startswith("the warm-up did not settle in ")
    assert note in caplog.text


async def test_what_others_have_open_contaminates(tmp_path: Path) -> None:
    async with (
        bench(tmp_path, drain_timeout_s=0.5).serve(setting("none")) as server,
        aiohttp.ClientSession() as session,
    ):
        url, name = server.endpoint.base_url, server.endpoint.served_model_name
        body = {"model": name, "prompt": [1, 2, 3], "max_tokens": 4000, "stream": True}
        async with session.post(f"{url}/v1/completions", json=body) as foreign:
            await foreign.content.readany()
            before = await server.facts()
            await server.replay(PLAN)
            outcome, note = server.doubt(await server.facts(before))
        assert outcome is ReplayOutcome.CONTAMINATED
        assert note.startswith("1 running and 0 waiting requests before the replay")
        await asyncio.wait_for(server.replay(PLAN), 60)
        # the stranger has left: its request is out of the server
        assert server.doubt(await server.facts(await server.facts()))[0] is ReplayOutcome.VALID
