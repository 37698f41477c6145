"""Two public traces, from their files to a verdict."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.flow.command import ROOT, Advisor

DATA = ROOT.parent / "shared" / "data"
TARGETS = ("--target", "ttft:p95<=1000ms", "--target", "itl:p95<=40ms")
JOB = ("recommend", "--engine", "sim", "--model", "llama-3.1-8b", "--hardware", "h100-sxm")


def trace(name: str) -> str:
    """Its path; where the traces are not there, the test is skipped, but never in the gate."""
    path = DATA / name
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} is absent")
        pytest.skip(f"{path} is absent")
    return str(path)


def ten_minutes(advisor: Advisor, kind: str, name: str) -> dict[str, Any]:
    """Import a trace, cut ten minutes out of it, and return the facts of the whole."""
    imported = advisor("profile", "import", kind, trace(name), "--out", "whole.jsonl")
    assert (imported.code, imported.out) == (0, "whole.jsonl\n"), imported
    window = ("profile", "window", "whole.jsonl", "--start", "600", "--end", "1200")
    assert advisor(*window, "--out", "ten.jsonl").code == 0
    return advisor("profile", "inspect", "whole.jsonl", "--json").object


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_azure_ends_with_a_verdict(tmp_path: Path) -> None:
    advisor = Advisor(tmp_path)
    facts = ten_minutes(advisor, "azure", "AzureLLMInferenceTrace_conv.csv")
    assert facts["requests"] == 19_366
    assert round(facts["rate_rps"], 2) == 5.53
    assert round(facts["dispersion_1s"], 2) == 1.39
    ended = advisor.on_db(*JOB, "--profile", "ten.jsonl", *TARGETS, "--json")
    advice = ended.object
    # what is shown meets the targets for certain; whether it gains ten minutes may not tell
    outcomes = ((0, "recommended"), (0, "keep_current"), (4, "not_proven"))
    assert (ended.code, advice["outcome"]) in outcomes
    assert [target["verdict"] for target in advice["targets"]] == ["met"] * 3
    assert advice["launches"]["search"] == 12


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_mooncake_is_beyond_one_gpu(tmp_path: Path) -> None:
    """About 40,000 prompt tokens a second; the bracket says how far beyond."""
    advisor = Advisor(tmp_path)
    facts = ten_minutes(advisor, "mooncake", "mooncake_conversation_trace.jsonl")
    assert facts["requests"] == 12_031
    assert round(facts["infinite_cache_hit_share"], 2) == 0.37
    assert 35_000 < facts["prompt_tokens_per_s"] < 45_000
    ended = advisor.on_db(*JOB, "--profile", "ten.jsonl", *TARGETS, "--json")
    advice = ended.object
    assert (ended.code, advice["outcome"]) == (3, "none_meets")
    assert advice["headroom"]["high"] is not None
    assert advice["headroom"]["high"] < 1
    assert any(target["verdict"] == "missed" for target in advice["targets"])
