"""What every engine does, whatever a server runs as."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil
import pytest

from advisor.bench.engines import end_all_leftovers
from advisor.bench.live import LiveBench
from advisor.engine.attach import AttachEngine, empty_prefix_cache
from advisor.engine.command import free_port
from advisor.engine.container import this_host
from advisor.engine.docker import DockerEngine
from advisor.engine.engine import Engine
from advisor.engine.vllm import VllmEngine
from advisor.terms.errors import Blocked, EngineError, InputError, LaunchFailed
from advisor.terms.outcome import Reason, ReplayOutcome
from advisor.terms.profile import Plan, Request, Window, WindowRole
from advisor.terms.setting import Setting
from tests.unit.engine.conftest import wait_for
from tests.unit.profile.builders import S, profile_of

pytestmark = pytest.mark.slow

MODEL = "llama-3.1-8b"
SIM = [sys.executable, "-c", "import sys; from advisor.standin import main; sys.exit(main())"]
SETTING = Setting.of(MODEL, {"max_num_seqs": 32}, ("max_num_seqs",))
IMAGE = "vllm/vllm-openai:test"


@dataclass
class Case:
    """One engine, and whether what it serves is its own to start and end."""

    engine: Engine
    owns: bool


@pytest.fixture(name="docker_state")
def _docker_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state, bin_ = tmp_path / "containers", tmp_path / "bin"
    state.mkdir()
    bin_.mkdir()
    script = bin_ / "docker"
    fake = Path(__file__).with_name("fake_docker.py")
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DOCKER_STATE", str(state))
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.setenv("HOME", str(tmp_path))
    return state


@pytest.fixture(name="running")
def _running(tmp_path: Path) -> Iterator[str]:
    """The address of a stand-in that someone else started."""
    port = free_port()
    argv = [*SIM, "serve", MODEL, "--port", str(port), "--max-num-seqs", "32"]
    with open(tmp_path / "theirs.log", "wb") as log:
        theirs = subprocess.Popen(argv, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(url))
        yield url
        assert theirs.poll() is None, "it was not ours to end"
    finally:
        theirs.kill()
        theirs.wait()


@pytest.fixture(name="case", params=["vllm", "docker", "attach"])
def _case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    logs = tmp_path / "data" / "logs"
    if request.param == "attach":
        url = request.getfixturevalue("running")
        yield Case(AttachEngine(url, MODEL, log_dir=logs), owns=False)
        return
    if request.param == "vllm":
        yield Case(VllmEngine(SIM, log_dir=logs), owns=True)
        assert descendants() == set()
        return
    state = request.getfixturevalue("docker_state")
    yield Case(DockerEngine(IMAGE, log_dir=logs, stop_grace_s=5), owns=True)
    assert descendants() == set()
    assert {path.name for path in state.iterdir()} <= {"calls.jsonl"}, "a container is left"


def descendants() -> set[psutil.Process]:
    return {
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    }


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


async def test_it_says_which_version_it_measures(case: Case) -> None:
    assert (await case.engine.version()).startswith("vllm-sim ")
    assert await case.engine.hardware()


async def test_a_setting_is_served_and_read_back(case: Case) -> None:
    async with case.engine.serve(SETTING) as endpoint:
        assert dict(endpoint.launch.resolved)["max_num_seqs"] == 32
        assert endpoint.launch.ignored == ()
        assert endpoint.failure() is None
        assert await endpoint.probe(timeout_s=30) is None
        assert endpoint.version is not None
        assert endpoint.log_path.read_text()


async def test_the_token_is_told_before_anything_runs_if_anything_is_started(case: Case) -> None:
    told: list[str] = []
    async with case.engine.serve(SETTING, told.append):
        pass
    assert len(told) == case.owns


async def test_nothing_is_left_when_what_was_done_with_it_fails(case: Case) -> None:
    with pytest.raises(ZeroDivisionError):
        async with case.engine.serve(SETTING):
            raise ZeroDivisionError


async def test_a_flag_of_another_version_is_refused_before_a_launch(case: Case) -> None:
    version = await case.engine.version()
    await case.engine.check_flags([("baseline", "max_num_seqs")], version)
    if case.owns:
        with pytest.raises(InputError, match=f"--swap-space is no flag of vLLM {version}"):
            await case.engine.check_flags([("baseline", "swap_space")], version)


async def test_names_are_checked_before_a_launch_and_values_by_the_server(case: Case) -> None:
    if not case.owns:
        return  # its setting is what it is
    refused = Setting.of(MODEL, {"max_num_seqs": "abc"})
    names = [("baseline", name) for name, _ in refused.flags]
    await case.engine.check_flags(names, await case.engine.version())
    with pytest.raises(LaunchFailed) as caught:
        async with case.engine.serve(refused):
            pytest.fail("it came up")
    assert caught.value.failure.reason is Reason.INVALID_SETTING
    assert "'abc'" in caught.value.failure.message


async def test_a_setting_that_is_refused_says_why(case: Case) -> None:
    if not case.owns:
        return  # its setting is what it is
    refused = Setting.of(MODEL, {"max_num_seqs": 32, "max_num_batched_tokens": 16})
    with pytest.raises(LaunchFailed) as caught:
        async with case.engine.serve(refused):
            pytest.fail("it came up")
    assert caught.value.failure.reason is Reason.INVALID_SETTING
    assert "max_num_batched_tokens" in caught.value.failure.message


async def test_one_job_at_a_time(case: Case) -> None:
    with (
        case.engine.hold("a job"),
        pytest.raises(Blocked, match=rf"pid {os.getpid()} \(a job\)"),
        case.engine.hold("another"),
    ):
        pytest.fail("it was held twice")


async def test_a_server_that_ends_under_load_is_seen(case: Case, tmp_path: Path) -> None:
    if not case.owns:
        return  # tokens alone tell
    async with case.engine.serve(SETTING) as endpoint:
        port = int(endpoint.base_url.rpartition(":")[2])
        listener = next(
            c.pid
            for c in psutil.net_connections()
            if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port
        )
        psutil.Process(listener).kill()
        for _ in range(100):
            if endpoint.failure() is not None:
                break
            await asyncio.sleep(0.1)
        failure = endpoint.failure()
        assert failure is not None
        assert failure.reason is Reason.CRASHED_UNDER_LOAD


async def test_what_docker_is_asked_for(docker_state: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    engine = DockerEngine(
        f"--shm-size 8g {IMAGE}", log_dir=tmp_path / "logs", gpus="0,1",
        extra_env={"HF_TOKEN": "secret", "HF_HOME": "/hub"},
    )  # fmt: skip
    setting = Setting.of(str(model), {"enable_prefix_caching": False, "max_num_seqs": 8})
    argv = engine.argv(setting, "7.1.ab", "advisor-ab", 4321)
    text = " ".join(argv)
    assert argv[1:5] == ["run", "--rm", "-d", "--ipc=host"]
    assert f"--label advisor.launch=7.1.ab --label advisor.host={this_host()}" in text
    assert '--gpus "device=0,1" -p 127.0.0.1:4321:8000' in text
    assert "-v /hub:/root/.cache/huggingface" in text
    assert f"-v {model}:{model}:ro" in text
    assert "-e HF_TOKEN" in text
    assert "secret" not in text, "a token's value has no place on a command line"
    assert "-e HF_HOME" not in text
    assert text.endswith(
        f"--shm-size 8g {IMAGE} --model {model} --no-enable-prefix-caching --max-num-seqs 8 "
        "--host 0.0.0.0 --port 8000 --served-model-name advisor-ab"
    )


async def test_docker_without_an_image_that_it_knows(docker_state: Path, tmp_path: Path) -> None:
    engine = DockerEngine("vllm/none:1", log_dir=tmp_path / "logs")
    with pytest.raises(EngineError, match="Unable to find image 'vllm/none:1'"):
        async with engine.serve(SETTING):
            pytest.fail("it came up")


@pytest.mark.parametrize("image", ["vllm", "", "-v /a:/b -d", "'unclosed"])
def test_what_is_no_image_is_refused(image: str, docker_state: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--vllm-command"):
        DockerEngine(image, log_dir=tmp_path)


def test_a_machine_without_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no command `docker` on PATH"):
        DockerEngine(IMAGE, log_dir=tmp_path)


async def test_containers_of_a_killed_advisor_are_removed_and_no_others(
    docker_state: Path, tmp_path: Path
) -> None:
    def container(token: str, host: str) -> Path:
        folder = docker_state / token.replace(".", "")
        folder.mkdir()
        labels = {"advisor.launch": token, "advisor.host": host}
        (folder / "labels").write_text(json.dumps(labels))
        (folder / "pid").write_text("999999999")
        return folder

    dead = container("999999999.1.abc", this_host())
    elsewhere = container("999999999.1.def", "another-host/1")
    mine = psutil.Process()
    alive = container(f"{mine.pid}.{int(mine.create_time())}.aa", this_host())
    engine = DockerEngine(IMAGE, log_dir=tmp_path / "logs", stop_grace_s=5)
    async with engine.serve(SETTING):
        assert not dead.exists()
    assert elsewhere.exists()
    assert alive.exists()
    shutil.rmtree(docker_state)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Cannot connect to the Docker daemon at unix:///x. Is it running?", []),
        ("permission denied", ["permission denied"]),
    ],
)
def test_a_docker_that_does_not_answer_is_told_of_where_it_may_hide_something(
    said: str, told: list[str], docker_state: Path
) -> None:
    script = docker_state.parent / "bin" / "docker"
    script.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    _, unknown = end_all_leftovers()
    assert [line.rpartition(": ")[2] for line in unknown] == told
    shutil.rmtree(docker_state)


@pytest.mark.parametrize("url", ["vllm", "127.0.0.1:8000", "ftp://x", "http://", "http://h?a=1"])
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"e\.g\. http://127\.0\.0\.1:8000"):
        AttachEngine(url, MODEL, log_dir=tmp_path)


async def test_nobody_at_the_address(tmp_path: Path) -> None:
    engine = AttachEngine("http://127.0.0.1:9", MODEL, log_dir=tmp_path)
    with pytest.raises(InputError, match=r"no vLLM server answers /version there"):
        await engine.version()
    with pytest.raises(LaunchFailed, match="serves no model"):
        async with engine.serve(SETTING):
            pytest.fail("it came up")


async def test_somebody_elses_load_voids_a_replay(running: str, tmp_path: Path) -> None:
    """A second of load, and beside it prompts that the plan has not."""
    profile = profile_of([Request(i * S // 40, 64, 6) for i in range(80)])
    bench = LiveBench(profile, AttachEngine(running, MODEL, log_dir=tmp_path / "logs"), MODEL)
    plan = Plan(Window("search-1", WindowRole.SEARCH, 0, S), 1.0, 1, 0)
    async with bench.serve(SETTING) as server, aiohttp.ClientSession() as session:
        before = await server.facts()
        await server.replay(plan)
        assert server.doubt(await server.facts(before)) == (ReplayOutcome.VALID, "")
        before = await server.facts()
        foreign = session.post(
            f"{running}/v1/completions",
            json={"model": MODEL, "prompt": [5] * 4000, "max_tokens": 1},
        )
        await asyncio.gather(server.replay(plan), foreign)
        outcome, note = server.doubt(await server.facts(before))
        assert outcome is ReplayOutcome.CONTAMINATED
        assert "prompt tokens, the plan has" in note


async def test_a_prefix_cache_is_emptied_only_where_that_is_offered(running: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{running}/reset_prefix_cache") as response:
            offered = response.status == 200
        said = await empty_prefix_cache(session, running, MODEL)
    assert said == ("emptied" if offered else "kept, the server offers no reset")
