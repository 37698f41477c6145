"""The engine room on real vLLM processes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import psutil
import pytest

from advisor.engine import Endpoint, FactsWatch, VllmEngine
from advisor.engine.process import ServerProcess
from advisor.terms.errors import LaunchFailed
from advisor.terms.flags import FlagValue
from advisor.terms.outcome import Reason, TrialState
from tests.real.conftest import SettingMaker

pytestmark = pytest.mark.real

DRIVER = """
import asyncio, sys
from pathlib import Path
from advisor.engine import VllmEngine
from advisor.terms.flags import parse_flags
from advisor.terms.setting import Setting

async def main():
    engine = VllmEngine(sys.argv[1], log_dir=Path(sys.argv[2]),
                        extra_env={"HF_HUB_OFFLINE": "1", "ADVISOR_TEST_MARK": sys.argv[3]})
    flags = "--dtype float32 --enforce-eager --load-format dummy --gpu-memory-utilization 0.2"
    print("go", flush=True)
    async with engine.serve(Setting.of(sys.argv[4], parse_flags(flags))):
        await asyncio.sleep(600)

asyncio.run(main())
"""


def server(endpoint: Endpoint) -> ServerProcess:
    assert isinstance(endpoint.process, ServerProcess)
    return endpoint.process


def living(process: ServerProcess) -> list[str]:
    return [" ".join(one.cmdline()) for one in process.living()]


def shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("psm_")}


@pytest.mark.accept
async def test_a_clean_start_and_end(engine: VllmEngine, make_setting: SettingMaker) -> None:
    setting = make_setting(max_num_seqs=64, enable_prefix_caching=False)
    async with engine.serve(setting) as endpoint:
        resolved = dict(endpoint.launch.resolved)
        assert resolved["max_num_batched_tokens"] == 2048
        assert resolved["max_num_seqs"] == 64
        assert resolved["enable_prefix_caching"] is False
        assert resolved["gpu_memory_utilization"] == 0.3
        assert endpoint.launch.ignored == ()
        assert endpoint.launch.kv_cache_tokens is not None
        assert endpoint.launch.kv_cache_tokens > 2048
        assert await endpoint.probe(timeout_s=60) is None
        assert len(living(server(endpoint))) >= 2, "the engine core is a process of its own"
    assert living(server(endpoint)) == []


@pytest.mark.accept
async def test_the_engine_core_is_found_when_its_server_was_killed(
    engine: VllmEngine, make_setting: SettingMaker
) -> None:
    before = shared_memory()
    async with engine.serve(make_setting()) as endpoint:
        held = shared_memory() - before
        assert held
        os.kill(server(endpoint).pid, signal.SIGKILL)
        await server(endpoint).wait(10)
        failure = endpoint.failure()
        assert failure is not None
        assert failure.reason is Reason.CRASHED_UNDER_LOAD
    assert living(server(endpoint)) == []
    assert not held & shared_memory(), "and gave back its shared memory"


async def test_server_side_counters(shared_server: Endpoint) -> None:
    body = {
        "model": shared_server.served_model_name,
        "prompt": [7] * 300,
        "max_tokens": 5,
        "ignore_eos": True,
    }
    async with FactsWatch(shared_server.base_url) as watch, aiohttp.ClientSession() as session:
        before = await watch.facts()
        for _ in range(2):
            async with session.post(
                f"{shared_server.base_url}/v1/completions", json=body
            ) as response:
                assert response.status == 200
        over = await watch.facts(before)
    assert over.prompt_tokens == 600
    assert over.generation_tokens == 10
    assert over.prefix_cache_queries == 600
    assert over.prefix_cache_hits == 256, "whole blocks of 128 tokens"
    assert over.preemptions == 0
    assert over.kv_cache_usage_max is not None


@pytest.mark.parametrize(
    ("flags", "reasons", "words"),
    [
        pytest.param(
            {"gpu_memory_utilization": 0.99},
            {Reason.OOM_LOAD, Reason.MEMORY_TAKEN},
            "less than desired",
            marks=pytest.mark.accept,
        ),
        pytest.param(
            {"no_such_flag": 3},
            {Reason.INVALID_SETTING},
            "unrecognized arguments",
            marks=pytest.mark.accept,
        ),
        pytest.param(
            {"quantization": "fp8"},
            {Reason.UNSUPPORTED},
            "not supported for quantization",
            marks=pytest.mark.accept,
        ),
        ({"max_num_batched_tokens": 64}, {Reason.INVALID_SETTING}, "max_num_seqs"),
    ],
)
async def test_refusals(
    engine: VllmEngine,
    make_setting: SettingMaker,
    flags: dict[str, FlagValue],
    reasons: set[Reason],
    words: str,
) -> None:
    with pytest.raises(LaunchFailed) as caught:
        async with engine.serve(make_setting(**{"max_num_seqs": 128, **flags})):
            pytest.fail("it came up")
    failure = caught.value.failure
    assert failure.reason in reasons
    assert words in failure.message
    assert words in failure.excerpt
    if failure.reason is not Reason.MEMORY_TAKEN:
        assert failure.state is TrialState.INFEASIBLE


@pytest.mark.accept
def test_ctrl_c_in_mid_start(vllm_command: str, model_path: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    for latest_s in (1.0, 12.0, 25.0):
        mark = f"{rng.getrandbits(64):x}"
        argv = [sys.executable, "-c", DRIVER, vllm_command, str(tmp_path), mark, model_path]
        driver = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"go\n"
        time.sleep(rng.uniform(latest_s / 2, latest_s))
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=60) != 0
        driver.stdout.close()
        assert marked(mark) == []


def marked(mark: str) -> list[int]:
    pids = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get("ADVISOR_TEST_MARK") == mark:
                pids.append(process.pid)
        except psutil.Error:
            continue
    return pids


@pytest.mark.accept
async def test_version(engine: VllmEngine) -> None:
    assert (await engine.version())[0].isdigit()
