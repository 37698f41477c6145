"""Other load generators as their users call them, each in a venv of its own outside the checkout.

The vLLM for CPUs and its tiny model come from `make vllm`; guidellm's venv is made beside them at
its first use, on top of that vLLM's packages (it needs torch and transformers too).
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.reference.server import Load
from tests.real import tiny_model
from tests.real.install import cache_dir, is_ready, target_dir

_GUIDELLM = "guidellm==0.8.1"
PROMPT_TOKENS = 16
#: For one run of a tool, and for a package index that is slow.
_PATIENCE_S, _INSTALL_PATIENCE_S = 300.0, 900.0


@dataclass(frozen=True, slots=True)
class Reported:
    """What a tool says, in milliseconds."""

    ttft_p95_ms: float
    itl_p99_ms: float


def vllm_bench(url: str, load: Load, rate: float, folder: Path) -> Reported:
    """`vllm bench serve` at an even rate."""
    said = folder / "vllm.json"
    options = {
        "backend": "openai",
        "base-url": url,
        "model": "none",
        "tokenizer": str(_model()),
        "dataset-name": "random",
        "random-input-len": PROMPT_TOKENS,
        "random-output-len": load.tokens,
        "num-prompts": load.streams,
        "request-rate": rate,
        "burstiness": 1000,
        "percentile-metrics": "ttft,itl",
        "metric-percentiles": "95,99",
        "result-dir": str(folder),
        "result-filename": said.name,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    command = target_dir() / "bin" / "vllm"
    _run([str(command), "bench", "serve", *words, "--ignore-eos", "--save-result"])
    result = json.loads(said.read_text())
    check(result["completed"], load)
    return Reported(result["p95_ttft_ms"], result["p99_itl_ms"])


def guidellm(url: str, load: Load, rate: float, folder: Path) -> Reported:
    """`guidellm run` at an even rate."""
    said = folder / "guidellm.json"
    data = f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={load.tokens}"
    options = {
        "backend": f"kind=openai_http,target={url},model={_model()},"
        "request_format=/v1/completions",
        "profile": f"kind=constant,rate={rate:g}",
        "constraint": f"kind=max_requests,count={load.streams}",
        "data": data,
        "output": f"kind=json,path={said}",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    _run([str(_guidellm_python()), "-m", "guidellm", "run", *words, "--disable-console"])
    (benchmark,) = json.loads(said.read_text())["benchmarks"]
    metrics = benchmark["metrics"]
    check(metrics["request_totals"]["successful"], load)
    ttft, itl = (metrics[name]["successful"]["percentiles"] for name in _GUIDELLM_METRICS)
    return Reported(ttft["p95"], itl["p99"])


_GUIDELLM_METRICS = ("time_to_first_token_ms", "inter_token_latency_ms")


class Unanswered(Exception):
    """A tool gave requests up: GuideLLM now and then drops the last one at its end."""


def check(answered: int, load: Load) -> None:
    """Figures of fewer requests than the truth is known of are no answer."""
    if answered != load.streams:
        raise Unanswered(f"{answered} of {load.streams} requests were answered")


def missing() -> str | None:
    """What has to be made first, or None."""
    if not is_ready(target_dir()):
        return "no vLLM for CPUs in the cache; run `make vllm` first"
    return None


@cache
def _model() -> Path:
    """Folder of the tiny model, of which only the tokenizer is used; made when absent."""
    script = Path(tiny_model.__file__)
    said = _run([str(target_dir() / "bin" / "python"), str(script)])
    return Path(said.strip().splitlines()[-1])


def _guidellm_python() -> Path:
    folder = cache_dir() / _GUIDELLM.replace("==", "-")
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.is_file():
        venv.create(folder, with_pip=True, clear=True)
        packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        (folder / packages / "vllm.pth").write_text(f"{target_dir() / packages}\n")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, _GUIDELLM], _INSTALL_PATIENCE_S)
        ready.touch()
    return python


def _run(command: Sequence[str], patience_s: float = _PATIENCE_S) -> str:
    """Its stdout; ends the benchmark with the reason when it fails or takes too long."""
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    try:
        done = subprocess.run(
            command, env=offline, capture_output=True, text=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command[:4])} …: not done after {patience_s:g} s")
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} …: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout
