"""Launch, proof, end, over a fake `vllm` in processes of its own."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest

from advisor.engine import VllmEngine
from advisor.engine.command import free_port, resolve_command
from advisor.engine.process import ServerProcess, new_token
from advisor.terms.errors import EngineError, InputError, LaunchFailed
from advisor.terms.flags import FlagValue
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from tests.unit.engine.conftest import (
    FAKE,
    MARK,
    make_engine,
    marked,
    refusal,
    server,
    spawn,
    wait_for,
)


async def test_a_setting_becomes_an_endpoint(engine: VllmEngine, mark: str) -> None:
    flags: dict[str, FlagValue] = {
        "max_num_seqs": 1024,
        "kv_cache_dtype": "auto",
        "enable_prefix_caching": True,
    }
    setting = Setting.of("informed", flags, knobs=("max_num_seqs", "enable_prefix_caching"))
    async with engine.serve(setting) as endpoint:
        assert psutil.pid_exists(server(endpoint).pid)
        assert endpoint.base_url.startswith("http://127.0.0.1:")
        assert endpoint.version == "0.0.1+fake"
        assert dict(endpoint.launch.resolved)["dtype"] == "float32"
        assert "quantization" not in dict(endpoint.launch.resolved)
        assert endpoint.launch.kv_cache_tokens == 4096
        assert endpoint.launch.ignored == ("max_num_seqs: asked 1024, runs 128",)
        assert endpoint.failure() is None
        assert await endpoint.probe(timeout_s=10) is None
        command = endpoint.log_path.read_text().splitlines()[0]
    assert "--host 127.0.0.1 --port" in command
    assert marked(mark) == []


async def test_values_are_read_from_metrics_and_log_too(engine: VllmEngine) -> None:
    async with engine.serve(Setting.of("plain", {})) as endpoint:
        resolved = dict(endpoint.launch.resolved)
        assert resolved["max_num_batched_tokens"] == 512
        assert resolved["gpu_memory_utilization"] == 0.5
        assert "max_num_seqs" not in resolved
        assert endpoint.launch.kv_cache_tokens == 1024


async def test_a_server_without_metrics_is_served(engine: VllmEngine) -> None:
    async with engine.serve(Setting.of("lonely", {})) as endpoint:
        assert endpoint.launch.kv_cache_tokens == 2048


@pytest.mark.parametrize("part", ["family", "stubborn"])
async def test_nothing_of_a_server_outlives_it(part: str, mark: str, tmp_path: Path) -> None:
    engine = make_engine(mark, tmp_path, stop_grace_s=0.3)
    async with engine.serve(Setting.of(part, {})):
        assert len(marked(mark)) == 2
    assert marked(mark) == []


async def test_children_are_found_when_the_server_was_killed(
    engine: VllmEngine, mark: str
) -> None:
    async with engine.serve(Setting.of("family", {})) as endpoint:
        os.kill(server(endpoint).pid, signal.SIGKILL)
        wait_for(lambda: server(endpoint).exit_code is not None)
        assert len(marked(mark)) == 1
        failure = endpoint.failure()
        assert failure is not None
        assert failure.reason is Reason.CRASHED_UNDER_LOAD
        assert "SIGKILL" in failure.message
    assert marked(mark) == []


async def test_a_foreign_process_named_vllm_is_left_alone(
    engine: VllmEngine, tmp_path: Path
) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    (tmp_path / "vllm").symlink_to(sleep)
    foreign = spawn([str(tmp_path / "vllm"), "60"], {})
    try:
        async with engine.serve(Setting.of("plain", {})):
            pass
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


async def test_shared_memory_of_a_killed_server_is_given_back(
    engine: VllmEngine, mark: str
) -> None:
    async with engine.serve(Setting.of("sharing", {})) as endpoint:
        name = endpoint.log_path.read_text().partition("shared memory ")[2].split()[0]
        assert name in os.listdir("/dev/shm")
        os.kill(server(endpoint).pid, signal.SIGKILL)
    assert marked(mark) == []
    assert name not in os.listdir("/dev/shm")


async def test_the_environment_is_clean(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PORT", "tcp://10.0.0.1:8000")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    engine = make_engine(mark, tmp_path)
    async with engine.serve(Setting.of("plain", {})) as endpoint:
        log = endpoint.log_path.read_text()
    line = next(line for line in log.splitlines() if line.startswith("environment: "))
    child = json.loads(line.removeprefix("environment: "))
    assert "VLLM_PORT" not in child
    assert "HTTP_PROXY" not in child
    assert child["VLLM_NO_USAGE_STATS"] == "1"
    assert "# not passed on: VLLM_PORT" in log


async def test_the_operator_adds_to_the_environment_in_the_command(
    mark: str, tmp_path: Path
) -> None:
    words = ["env", "HTTPS_PROXY=http://proxy:3128", *FAKE]
    engine = VllmEngine(words, log_dir=tmp_path, extra_env={MARK: mark}, stop_grace_s=1)
    assert await engine.version() == "0.0.1+fake"
    async with engine.serve(Setting.of("family", {})) as endpoint:
        log = endpoint.log_path.read_text()
    assert '"HTTPS_PROXY": "http://proxy:3128"' in log
    assert marked(mark) == []


async def test_another_server_at_the_address_is_not_measured(engine: VllmEngine) -> None:
    failure = await refusal(engine, Setting.of("stranger", {}))
    assert failure.reason is Reason.WRONG_SERVER
    assert "somebody-else" in failure.message
    assert failure.state is TrialState.FAILED


async def test_a_server_that_never_gets_ready(mark: str, tmp_path: Path) -> None:
    engine = make_engine(mark, tmp_path, start_timeout_s=0.5)
    failure = await refusal(engine, Setting.of("silent", {}))
    assert failure.reason is Reason.START_TOO_SLOW


async def test_a_start_that_hangs_is_not_the_settings_fault(mark: str, tmp_path: Path) -> None:
    engine = make_engine(mark, tmp_path, stall_timeout_s=0.5)
    failure = await refusal(engine, Setting.of("silent", {}))
    assert failure.reason is Reason.START_STALLED
    assert failure.state is TrialState.FAILED


async def test_a_silent_start_that_downloads_is_not_taken_for_a_hang(
    mark: str, tmp_path: Path
) -> None:
    """It is silent for five times the limit."""
    engine = make_engine(mark, tmp_path, stall_timeout_s=0.6)
    async with engine.serve(Setting.of("growing:3", {})) as endpoint:
        assert endpoint.launch.cold_start_s >= 3


def test_work_is_seen_without_a_log(tmp_path: Path) -> None:
    log_path = tmp_path / "log"
    log_path.touch()
    busy = ServerProcess(new_token())
    burn = "while True: pass"
    try:
        busy.start([sys.executable, "-c", burn], {}, log_path)
        wait_for(lambda: busy.effort()[0] > 0.3)
    finally:
        busy.kill()
    assert busy.effort() == (0, 0)


@pytest.mark.parametrize(
    ("part", "reason", "words"),
    [
        ("exit:3", Reason.DIED, "exited with 3"),
        ("kill:9", Reason.DIED, "SIGKILL"),
        ("say:ValueError: flux capacitor", Reason.UNCLASSIFIED, "flux capacitor"),
        ("say:No available memory for the cache blocks.", Reason.KV_CACHE_TOO_SMALL, "memory"),
    ],
)
async def test_a_start_that_fails_says_why(
    engine: VllmEngine, part: str, reason: Reason, words: str
) -> None:
    failure = await refusal(engine, Setting.of(part, {}))
    assert failure.reason is reason
    assert words in failure.message


async def test_a_server_that_sends_no_token_is_hung(engine: VllmEngine) -> None:
    async with engine.serve(Setting.of("mute", {})) as endpoint:
        failure = await endpoint.probe(timeout_s=0.3)
        assert failure is not None
        assert failure.reason is Reason.HUNG


async def test_an_engine_that_died_behind_its_api_is_seen(engine: VllmEngine) -> None:
    async with engine.serve(Setting.of("plain", {})) as endpoint:
        said = (
            "EngineCore encountered a fatal error.\ntorch.OutOfMemoryError: CUDA out of memory\n"
        )
        endpoint.log_path.write_text(said)
        failure = endpoint.failure()
        assert failure is not None
        assert failure.reason is Reason.OOM_UNDER_LOAD


async def test_a_log_folder_that_cannot_be_made(mark: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match="cannot be launched"):
        async with make_engine(mark, tmp_path / "file" / "logs").serve(Setting.of("plain", {})):
            pytest.fail("it came up")


async def test_version_is_the_last_line_it_prints(engine: VllmEngine) -> None:
    assert await engine.version() == "0.0.1+fake"


async def test_a_command_that_cannot_say_its_version(tmp_path: Path) -> None:
    engine = VllmEngine([sys.executable, "-c", "raise SystemExit(1)"], log_dir=tmp_path)
    with pytest.raises(InputError, match="exited with 1 and said 'nothing'"):
        await engine.version()


async def test_a_version_that_does_not_come(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    engine = VllmEngine(command, log_dir=tmp_path, version_timeout_s=0.3)
    with pytest.raises(InputError, match=r"took longer than 0\.3 s"):
        await engine.version()


@pytest.mark.parametrize(
    "command", ["", " ", "''", "no-such-vllm", "/nowhere/vllm --x", "'unclosed"]
)
def test_a_missing_command_is_named_and_nothing_is_written(command: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        VllmEngine(command, log_dir=tmp_path / "logs")
    assert str(caught.value).startswith(f"--vllm-command {command!r}: ")
    assert "expected the vllm executable" in str(caught.value)
    assert not (tmp_path / "logs").exists()


async def test_a_file_that_is_not_a_program(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text("not a program\n")
    script.chmod(0o755)
    with pytest.raises(InputError, match="cannot be run"):
        await VllmEngine(str(script), log_dir=tmp_path).version()


def test_words_of_a_command() -> None:
    assert resolve_command(FAKE) == FAKE
    assert resolve_command("sh -c true")[1:] == ["-c", "true"]


async def test_a_log_that_is_gone_in_mid_run(engine: VllmEngine) -> None:
    async with engine.serve(Setting.of("plain", {})) as endpoint:
        endpoint.log_path.unlink()
        with pytest.raises(EngineError, match=rf"the log {endpoint.log_path} cannot be read: No"):
            endpoint.failure()


async def test_a_log_that_is_gone_while_it_starts(mark: str, tmp_path: Path) -> None:
    engine = make_engine(mark, tmp_path / "logs", stall_timeout_s=0.5)

    async def lose_it() -> None:
        logs = tmp_path / "logs"
        await asyncio.to_thread(wait_for, lambda: bool(list(logs.glob("*.log"))))
        next(logs.glob("*.log")).unlink()

    losing = asyncio.create_task(lose_it())
    with pytest.raises(EngineError, match="cannot be read: No such file") as caught:
        async with engine.serve(Setting.of("silent", {})):
            pytest.fail("it came up")
    await losing
    assert not isinstance(caught.value, LaunchFailed)


@pytest.mark.parametrize("rest", ["serve", "serve llama --port 1", "-m vllm serve"])
def test_serve_is_ours_to_say(rest: str) -> None:
    with pytest.raises(InputError, match="expected what stands before `serve`; leave `serve`"):
        resolve_command([sys.executable, *rest.split()])


def test_a_file_that_is_not_executable(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    with pytest.raises(InputError, match="no such command; expected"):
        resolve_command(str(script))
    script.touch(mode=0o644)
    with pytest.raises(InputError, match=f"{script} is not executable; expected"):
        resolve_command(str(script))


def test_a_fresh_port_can_be_bound() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
