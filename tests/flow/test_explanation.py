"""One whole simulated job in which one knob does everything and another one nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.flow.command import Advisor, refused
from tests.flow.jobs import Finished
from tests.flow.loads import write_small

#: Memory for the KV cache is plenty at any of these values; two thirds of each prompt are shared.
SPACE = """
[knobs.enable_prefix_caching]
values = [true, false]

[knobs.gpu_memory_utilization]
values = [0.8, 0.85, 0.9]
"""
JOB = (
    *("recommend", "--engine", "sim", "--model", "llama-3.1-8b", "--hardware", "h100-sxm"),
    *("--profile", "small.jsonl", "--space", "space.toml", "--sampler", "grid"),
    *("--baseline", "--no-enable-prefix-caching --gpu-memory-utilization 0.8"),
    *("--target", "ttft:p90<=0.6x", "--target", "itl:p90<=40ms"),
    *("--objective", "latency", "--launches", "4", "--seed", "3"),
)


@pytest.fixture(name="job", scope="module")
def _job(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    home = tmp_path_factory.mktemp("explained")
    write_small(home / "small.jsonl")
    (home / "space.toml").write_text(SPACE)
    advisor = Advisor(home)
    ended = advisor.on_db(*JOB, "--json")
    assert (ended.code, ended.object["outcome"]) == (0, "recommended"), ended
    return Finished(advisor, ended)


@pytest.fixture(name="why", scope="module")
def _why(job: Finished) -> dict[str, Any]:
    found: dict[str, Any] = job.advisor.on_db("show", job.job, "--json").object["explanation"]
    return found


def test_the_useless_knob_is_named_in_the_advice(job: Finished) -> None:
    (line,) = [line for line in job.advice["reasons"] if line.startswith("Without effect here")]
    assert re.match(
        r"Without effect here: --gpu-memory-utilization \(3 pairs, \d+\.\d %\): ", line
    )
    assert "--enable-prefix-caching" not in line


def test_the_knob_that_matters_comes_first_with_its_pairs(why: dict[str, Any]) -> None:
    first, second = why["knobs"]
    assert (first["knob"], first["within_noise"]) == ("enable_prefix_caching", False)
    assert [(pair["better"], pair["worse"]) for pair in first["pairs"]] == [(True, False)]
    assert first["share_of_spread"] > 0.8
    assert (second["knob"], second["within_noise"]) == ("gpu_memory_utilization", True)
    assert why["knobs_untold"] == []


def test_the_time_that_the_winner_saves_is_prefill(why: dict[str, Any]) -> None:
    winner, current = why["time_spent"]
    assert winner["setting"]["enable_prefix_caching"] is True
    assert current["setting"]["enable_prefix_caching"] is False
    # three windows of the search, three held out
    assert winner["replays"] == current["replays"] == 6
    for each in (winner, current):
        assert each["queue_ms"] + each["prefill_ms"] == pytest.approx(each["ttft_ms"])
        assert each["preemptions"] == 0
    assert winner["prefill_ms"] < 0.8 * current["prefill_ms"]


def test_the_curve_and_the_costs_are_of_what_was_measured(why: dict[str, Any]) -> None:
    settings = why["trade_off"]["settings"]
    assert {spot["trial"] for spot in settings} <= {0, 1, 2, 3}
    assert any(spot["on_curve"] for spot in settings)
    costs = why["target_costs"]
    assert [cost["target"].partition("<")[0] for cost in costs] == [
        "ttft:p90",
        "itl:p90",
        "errors",
    ]
    assert sum(cost["nearest"] for cost in costs) == 1
    assert {cost["headroom_without"] for cost in costs} == {None}
    assert any("KV cache was never more than" in line for line in why["findings"])


def test_a_person_reads_the_same_in_show_and_in_the_report(job: Finished, tmp_path: Path) -> None:
    shown = job.advisor.on_db("show", job.job)
    assert (shown.code, shown.err) == (0, "")
    page = tmp_path / "report.html"
    words = ("report", job.job, "--out", str(page))
    written = job.advisor.on_db(*words)
    assert (written.code, written.out, written.err) == (0, "", "")
    html = page.read_text(encoding="utf-8")
    report = " ".join(re.sub(r"<[^>]+>", " ", html).split())
    for text in (" ".join(shown.out.split()), report):
        assert "Where a request's time went at 1x, mean ms" in text.replace("&#x27;", "'")
        assert "What each target costs (simulated, search load)" in text
        assert "What each knob does to latency" in text
        assert "TTFT against ITL against headroom at 1x (simulated)" in text
        assert "--gpu-memory-utilization" in text
    assert html.count("<svg ") == 1
    assert "<script" not in html
    refused(job.advisor.on_db(*words), f"--out {page}", "there already", "--force")
    assert job.advisor.on_db(*words, "--force").code == 0
