"""Whole jobs through the command line, on real vLLM servers."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from advisor.engine import VllmEngine
from advisor.profile.load import load_profile
from advisor.profile.rescale import cut
from advisor.profile.write import write_profile
from advisor.terms.flags import parse_flags
from advisor.terms.setting import Setting
from tests.real.judge import share_over

pytestmark = pytest.mark.real

ROOT = Path(__file__).parent.parent.parent
TINY = ROOT / "profiles" / "tiny-cpu.jsonl"
BASELINE = (
    "--gpu-memory-utilization 0.3 --max-num-batched-tokens 2048 --dtype float32 "
    "--enforce-eager --max-model-len 2048 --load-format dummy"
)
#: 0.99 of the node's memory is more than is free on a machine that runs anything at all
REFUSED = "[knobs.gpu_memory_utilization]\nvalues = [0.3, 0.99]\n"
BATCHES = "[knobs.max_num_batched_tokens]\nvalues = [128, 512, 2048]\n"


@dataclass(frozen=True)
class Job:
    """One `advisor recommend`, ended."""

    code: int
    advice: dict[str, Any]
    trials: list[dict[str, Any]]
    #: of its servers, after it ended
    left: list[str]


def recommend(folder: Path, command: str, model: str, space: str, *options: str) -> Job:
    """Run a job to its end; whatever it prints on stderr is shown when a test fails."""
    file = folder / "space.toml"
    file.write_text(space)
    advisor = str(Path(sys.executable).with_name("advisor"))
    db = f"sqlite:///{folder}/advisor.db"
    argv = [advisor, "recommend", "--engine", "vllm", "--vllm-command", command, "--db", db]
    argv += ["--model", model, "--baseline", BASELINE, "--space", str(file), "--json"]
    argv += ["--sampler", "grid", "--objective", "latency", *options]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate()
    advice = json.loads(printed)
    listed = [advisor, "trials", advice["job"], "--db", db, "--json"]
    shown = subprocess.run(listed, stdout=subprocess.PIPE, text=True, check=True)
    return Job(process.returncode, advice, json.loads(shown.stdout)["trials"], left(process.pid))


def left(pid: int) -> list[str]:
    """Command lines of living servers that the process with this pid had started."""
    found = []
    for process in psutil.process_iter():
        try:
            token = process.environ().get("ADVISOR_LAUNCH", "")
            if token.startswith(f"{pid}."):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_a_small_job_survives_a_refusal_and_proves_its_baseline(
    vllm_command: str, model_path: str, tmp_path: Path
) -> None:
    """Five launches: the baseline, one refused, and the baseline on three held-out windows."""
    short = tmp_path / "short.jsonl"
    write_profile(cut(load_profile(TINY), 0, 150), short)
    job = recommend(
        tmp_path,
        vllm_command,
        model_path,
        REFUSED,
        *("--profile", str(short), "--target", "ttft:p75<=60s", "--launches", "2"),
    )
    assert job.advice["outcome"] == "keep_current"
    assert job.code == 0
    assert job.advice["simulated"] is False
    assert job.advice["engine"]["version"].startswith("0.")
    assert job.advice["launches"] == {"search": 2, "confirm": 3}
    baseline, refused, *confirming = job.trials
    assert baseline["state"] == "measured"
    assert baseline["resolved"]["gpu_memory_utilization"] == 0.3
    assert baseline["kv_cache_tokens"] > 2048
    assert refused["state"] == "infeasible"
    assert refused["reason"] == "oom_load"
    assert "memory" in refused["excerpt"]
    assert [trial["state"] for trial in confirming] == ["measured"] * 3
    assert job.left == []


@pytest.mark.accept
@pytest.mark.timeout(3600)
async def test_a_job_finds_fewer_batched_tokens_for_a_tighter_itl(
    vllm_command: str, model_path: str, engine: VllmEngine, tmp_path: Path
) -> None:
    job = recommend(
        tmp_path,
        vllm_command,
        model_path,
        REFUSED + BATCHES,
        *("--profile", str(TINY), "--target", "itl:p99<=0.5x", "--target", "ttft:p95<=20s"),
        *("--launches", "5"),
    )
    print(json.dumps(job.advice))
    for trial in job.trials:
        print(trial["setting"], trial["state"], trial["reason"], trial["measurements"])
    assert job.left == []
    launched = [trial for trial in job.trials if trial["state"] == "measured"]
    assert len([trial for trial in launched if trial["phase"] != "confirm"]) >= 3
    refused = [trial for trial in job.trials if trial["state"] == "infeasible"]
    assert [trial["reason"] for trial in refused] == ["oom_load"]
    assert job.advice["outcome"] == "recommended"
    assert job.code == 0
    assert job.advice["setting"]["max_num_batched_tokens"] < 2048

    advised = job.advice["argv"]
    setting = Setting.of(model_path, parse_flags(" ".join(advised[3:])))
    itl = next(t for t in job.advice["targets"] if t["metric"] == "itl")
    for repeat in range(2):
        async with engine.serve(setting) as endpoint:
            share = await share_over(endpoint, load_profile(TINY), repeat, itl["limit"])
        print(f"judged apart: {100 * share:.2f} % of gaps over {itl['limit']} ms")
        assert share <= 0.01
