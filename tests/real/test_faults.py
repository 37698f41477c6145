"""What goes wrong on real vLLM processes, each with its reason, its excerpt and nothing left."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from advisor.bench.live import LiveBench, LiveServer
from advisor.engine import VllmEngine
from advisor.engine.process import ServerProcess
from advisor.profile.load import load_profile
from advisor.terms.errors import InputError, LaunchFailed, ReplayInterrupted
from advisor.terms.flags import FlagValue
from advisor.terms.outcome import Failure, Reason, TrialState
from advisor.terms.profile import Plan, Window, WindowRole
from advisor.terms.traces import Traces
from tests.real.command import PROGRAM, ROOT, advisor, launched_by
from tests.real.conftest import SettingMaker

pytestmark = [pytest.mark.real, pytest.mark.accept]

S = 10**9
GIB = 1024**3
PROFILE = ROOT / "profiles" / "tiny-cpu.jsonl"
PLAN = Plan(Window("search-1", WindowRole.SEARCH, 5 * S, 35 * S), 1.0, 7, 5 * S)


def launch_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("advisor-*.*.*"))


async def cut_down(
    engine: VllmEngine, setting_of: SettingMaker, deed: Callable[[LiveServer], None]
) -> tuple[Failure, Traces]:
    """Do the deed in mid-replay; how the replay ended, and that nothing was left."""
    bench = LiveBench(load_profile(PROFILE), engine, setting_of.model_path, stall_timeout_s=20)
    before, served = launch_folders(), list[LiveServer]()

    async def play() -> None:
        async with bench.serve(setting_of()) as server:
            served.append(server)
            asyncio.get_running_loop().call_later(15, deed, server)
            await server.replay(PLAN)

    with pytest.raises(ReplayInterrupted) as caught:
        await play()
    assert processes(served[0]).living() == []
    assert launch_folders() <= before, "others may run here too"
    return caught.value.failure, caught.value.traces


def processes(server: LiveServer) -> ServerProcess:
    assert isinstance(server.endpoint.process, ServerProcess)
    return server.endpoint.process


async def test_the_api_server_is_killed_in_mid_replay(
    engine: VllmEngine, make_setting: SettingMaker
) -> None:
    failure, traces = await cut_down(
        engine, make_setting, lambda server: os.kill(processes(server).pid, signal.SIGKILL)
    )
    assert failure.reason is Reason.CRASHED_UNDER_LOAD
    assert "SIGKILL" in failure.message
    assert failure.excerpt
    assert traces.event_tokens.sum() > 0, "what was measured until then is kept"


async def test_the_engine_core_stands_still_in_mid_replay(
    engine: VllmEngine, make_setting: SettingMaker
) -> None:
    def stop(server: LiveServer) -> None:
        said = re.search(r"\(EngineCore pid=(\d+)\)", server.endpoint.log_path.read_text())
        assert said is not None
        os.kill(int(said.group(1)), signal.SIGSTOP)

    failure, traces = await cut_down(engine, make_setting, stop)
    assert failure.reason is Reason.HUNG
    assert failure.state is TrialState.FAILED
    assert traces.event_tokens.sum() > 0


async def test_a_flag_of_another_version_costs_no_launch(engine: VllmEngine) -> None:
    version = await engine.version()
    await engine.check_flags([("baseline", "max_num_batched_tokens")], version)
    with pytest.raises(InputError) as caught:
        await engine.check_flags([("baseline", "swap_space")], version)
    assert str(caught.value).startswith(f"baseline: --swap-space is no flag of vLLM {version}")


def too_little() -> float:
    """A share of this machine's memory that is less than a worker uses before any KV cache."""
    return round(0.3 * GIB / psutil.virtual_memory().total, 4)


@pytest.mark.parametrize(
    ("flags", "reason", "words"),
    [
        ({"gpu_memory_utilization": too_little()}, Reason.KV_CACHE_TOO_SMALL, "GiB"),
        (
            {"quantization": "fp8", "dtype": "bfloat16"},
            Reason.UNSUPPORTED,
            "static_scaled_fp8_quant",
        ),
    ],
)
async def test_a_setting_that_cannot_run_here(
    engine: VllmEngine,
    make_setting: SettingMaker,
    flags: dict[str, FlagValue],
    reason: Reason,
    words: str,
) -> None:
    before = launch_folders()
    with pytest.raises(LaunchFailed) as caught:
        async with engine.serve(make_setting(**flags)):
            pytest.fail("it came up")
    failure = caught.value.failure
    assert failure.reason is reason, failure
    assert words in failure.excerpt
    assert failure.state is TrialState.INFEASIBLE
    assert launch_folders() <= before, "others may run here too"


async def test_killed_while_it_starts(engine: VllmEngine, make_setting: SettingMaker) -> None:
    def kill(token: str) -> None:
        asyncio.get_running_loop().call_later(
            5, lambda: os.kill(ServerProcess(token).living()[0].pid, signal.SIGKILL)
        )

    with pytest.raises(LaunchFailed) as caught:
        async with engine.serve(make_setting(), kill):
            pytest.fail("it came up")
    assert caught.value.failure.reason is Reason.DIED
    assert "SIGKILL" in caught.value.failure.message


def words(vllm_command: str, model_path: str) -> tuple[str, ...]:
    baseline = (
        "--gpu-memory-utilization 0.3 --max-num-batched-tokens 2048 --dtype float32 "
        "--enforce-eager --max-model-len 2048 --load-format dummy"
    )
    return (
        "recommend", "--engine", "vllm", "--vllm-command", vllm_command, "--model", model_path,
        "--profile", str(PROFILE), "--target", "itl:p95<=1s", "--launches", "1",
        "--baseline", baseline,
    )  # fmt: skip


def test_two_jobs_at_once_and_the_first_one_killed(
    vllm_command: str, model_path: str, tmp_path: Path
) -> None:
    """The second is refused by the first one's name; whoever comes after it finds nothing left."""
    asked = words(vllm_command, model_path)
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
    }
    before = launch_folders()
    argv = [sys.executable, *PROGRAM, *asked, "--db", f"sqlite:///{tmp_path / 'ledger.db'}"]
    first = subprocess.Popen(argv, env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(launched_by(first.pid)) >= 2, 120)
        second = advisor(tmp_path, *asked, timeout_s=120)
        assert second.code == 6, second
        assert f"this machine is in use by pid {first.pid}" in second.err
        assert len(launched_by(first.pid)) >= 2, "the first one goes on"
    finally:
        first.kill()
        first.communicate()
    assert launched_by(first.pid) != []
    assert launch_folders() - before
    doctor = advisor(tmp_path, "doctor", "--vllm-command", vllm_command, timeout_s=120)
    assert "of trial 0 of job " in doctor.out
    assert launched_by(first.pid) == []
    assert launch_folders() <= before, "others may run here too"


def wait_until(condition: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.5)
