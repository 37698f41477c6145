"""A machine that lets a job down: one line, what is needed, and how to go on."""

import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from advisor.cli import run, run_job
from advisor.terms.errors import AdvisorError, EngineError, LeaseLost, LedgerError
from tests.flow.bad_input import prepare_files
from tests.flow.command import Ended, refused

NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."
SIM = ("--engine", "sim", "--hardware", "h100-sxm")
JOB = (
    *("recommend", "--model", "llama-3.1-8b", "--profile", "small.jsonl"),
    *("--target", "ttft:p90<=60ms", "--launches", "1", "--db", "sqlite:///ledger.db"),
)


@pytest.fixture(name="folder", autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("ADVISOR_DB", raising=False)
    return tmp_path


@pytest.mark.parametrize("said", [NO_DAEMON, "permission denied while trying to connect"])
def test_docker_that_does_not_answer_is_told_before_a_job_is_opened(
    said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docker = folder / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    words = (*JOB, "--engine", "docker", "--vllm-command", "vllm/vllm-openai:v0.33.0")
    ended = Ended(run(list(words)), *capsys.readouterr())
    refused(ended, "engine docker: ", f"docker ps: {said}", "`docker info`", "--vllm-command")
    assert not (folder / "ledger.db").exists()


def test_a_folder_for_logs_that_is_a_file_is_told_before_a_job_is_opened(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = folder / "data" / "advisor" / "logs"
    logs.parent.mkdir(parents=True)
    logs.touch()
    ended = Ended(run([*JOB, "--vllm-command", "true"]), *capsys.readouterr())
    refused(ended, f"data folder: cannot write logs in {logs}: File exists")
    assert not (folder / "ledger.db").exists()


@pytest.mark.parametrize(
    "error",
    [
        EngineError("vllm cannot be launched with its log at x.log: No space left on device"),
        LedgerError("database sqlite:///ledger.db: database or disk is full"),
    ],
)
def test_a_machine_that_gives_out_in_a_job_says_how_to_go_on(
    error: AdvisorError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def gives_out(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(run_job, "run", gives_out)
        code = run([*JOB, *SIM])
    last = capsys.readouterr().err.splitlines()[-1]
    said, _, command = last.partition("; once that is remedied, go on with: ")
    assert code == 2
    assert said == f"advisor: {error}"
    with closing(sqlite3.connect("ledger.db")) as connection:
        ((job,),) = connection.execute("SELECT id FROM job").fetchall()
    words = shlex.split(command)
    assert words == ["advisor", "recommend", "--resume", job, "--db", "sqlite:///ledger.db"]


def test_a_job_that_another_process_took_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def taken(*_: object) -> None:
        raise LeaseLost("job x belongs to pid 7 now")

    monkeypatch.setattr(run_job, "run", taken)
    assert run([*JOB, *SIM]) == 2
    assert capsys.readouterr().err.endswith("advisor: job x belongs to pid 7 now\n")
