"""What commands print: for a program one object, for a person words that say simulated."""

import json
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from advisor.measure.definitions import DEFINITIONS
from tests.flow.command import Advisor, Ended, refused
from tests.flow.jobs import SMALL_JOB, Finished, await_trial, job_ids, kill


def test_the_advice_is_one_object_on_stdout_and_progress_is_on_stderr(finished: Finished) -> None:
    advice = finished.advice
    assert (advice["schema"], advice["outcome"]) == (1, "recommended")
    assert advice["simulated"] is True
    assert advice["engine"]["kind"] == "sim"
    assert advice["launches"] == {"search": 4, "confirm": 6}
    assert advice["argv"][:3] == ["vllm", "serve", "llama-3.1-8b"]
    assert advice["setting"]["enable_prefix_caching"] is True
    assert advice["baseline"]["setting"]["enable_prefix_caching"] is False
    assert {target["verdict"] for target in advice["targets"]} == {"met"}
    assert "missed" in {target["verdict"] for target in advice["baseline"]["targets"]}
    relative = advice["targets"][0]
    assert (relative["asked"], relative["unit"]) == ("ttft:p90<=0.6x", "ms")
    lines = finished.ended.err.splitlines()
    assert lines[0].startswith(f"job {finished.job}: llama-3.1-8b on h100-sxm (simulated")
    opened = [line for line in lines if line.startswith("trial ")]
    assert [line.split()[1] for line in opened] == [str(number) for number in range(10)]
    assert {line.split()[2] for line in opened} == {"baseline:", "search:", "confirm:"}
    assert lines[2].strip().startswith("missed at 1x  [")
    assert "elapsed, about" in lines[2]


def test_the_same_seed_gives_the_same_advice(advisor: Advisor, finished: Finished) -> None:
    again = advisor.on_db(*SMALL_JOB, "--json")
    assert {**again.object, "job": finished.job} == finished.advice


def test_the_advice_for_a_person(described: Ended, finished: Finished) -> None:
    assert described.err == ""
    assert f"Recommended: change to this setting (simulated, job {finished.job})" in described.out
    assert f"Trials of job {finished.job} at 1x the recorded load (simulated)" in described.out
    assert shlex.join(finished.advice["argv"]) in described.out
    assert "--enable-prefix-caching off -> on" in described.out
    assert "all numbers are simulated on h100-sxm" in described.out
    for reason in finished.advice["reasons"]:
        assert f"- {reason}" in described.out
    shown = finished.advisor.on_db("show", finished.job)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out in described.out


def test_show_gives_a_program_what_recommend_gave_and_what_explains_it(finished: Finished) -> None:
    shown = finished.advisor.on_db("show", finished.job, "--json")
    body = shown.object
    assert body.pop("explanation")["trade_off"]["multiple"] == 1.0
    assert (body, shown.err) == (finished.advice, "")


def test_jobs(finished: Finished) -> None:
    found = finished.advisor.on_db("jobs", "--json").object
    assert found["schema"] == 1
    (job,) = found["jobs"]
    assert (job["job"], job["state"], job["outcome"]) == (finished.job, "done", "recommended")
    assert job["simulated"] is True
    # the relative limit as trial 0 settled it
    assert re.fullmatch(r"ttft:p90<=[0-9.]+ms", job["targets"][0])
    table = finished.advisor.on_db("jobs").out
    assert finished.job in table
    assert "simulated" in table


def test_trials(finished: Finished) -> None:
    found = finished.advisor.on_db("trials", finished.job, "--json").object
    assert (found["schema"], found["job"], found["simulated"]) == (1, finished.job, True)
    trials = found["trials"]
    assert [trial["trial"] for trial in trials] == list(range(10))
    assert [trial["phase"] for trial in trials[:4]] == ["baseline", *["search"] * 3]
    assert {trial["state"] for trial in trials} == {"measured"}
    for trial in trials:
        assert trial["kv_cache_tokens"] > 0
        assert len(trial["played"]) == trial["replays"] > 0
        assert {one["audit"]["stamped_at"] for one in trial["played"]} == {"virtual"}
        assert trial["measurements"][0]["metrics"]["ttft"]["samples"] > 0
    table = finished.advisor.on_db("trials", finished.job).out
    assert "(simulated)" in table
    assert "ttft:p90<=" in table
    assert "load generator" not in table


def test_an_unfinished_job(advisor: Advisor) -> None:
    process = advisor.start(*SMALL_JOB, "--db", advisor.url)
    assert await_trial(process, advisor.db, 1)
    kill(process)
    (job,) = job_ids(advisor.db)
    shown = advisor.on_db("show", job)
    assert (shown.code, shown.err) == (0, "")
    assert f"job {job} (simulated) is not finished" in shown.out
    assert f"advisor recommend --resume {job} --db {advisor.url}" in shown.out
    found = advisor.on_db("show", job, "--json").object
    assert (found["state"], found["outcome"], found["simulated"]) == ("open", None, True)


class Links(HTMLParser):
    """Collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "data")]


def test_the_report_is_one_file_that_needs_no_other(finished: Finished) -> None:
    page = (finished.advisor.home / "report.html").read_text(encoding="utf-8")
    seen = Links()
    seen.feed(page)
    assert seen.found == []
    assert not seen.tags & {"script", "link", "iframe", "img"}
    assert not re.search(r"https?://|url\(|@import", page)
    assert "simulated" in page
    assert finished.job in page
    assert "Recommended: change to this setting" in page
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    for definition in DEFINITIONS:  # cells are folded over lines: their first words stand there
        assert f"{definition.metric} " in text
        assert " ".join(definition.formula.split()[:3]) in text


@pytest.mark.slow
def test_db(advisor: Advisor) -> None:
    refused(advisor.on_db("db", "check"), "is empty", "db upgrade")
    assert not advisor.db.exists()
    upgraded = advisor.on_db("db", "upgrade")
    assert (upgraded.code, upgraded.out) == (0, "")
    assert upgraded.err.startswith(f"{advisor.url}: schema ")
    checked = advisor.on_db("db", "check", "--json")
    assert (checked.code, checked.object["state"]) == (0, "current")
    empty = advisor.on_db("jobs", "--json")
    assert (empty.code, empty.object) == (0, {"schema": 1, "jobs": []})


@pytest.mark.slow  # each tries what the load generator carries
@pytest.mark.parametrize("command", ["absent-vllm", "vllm-sim"])
def test_doctor(advisor: Advisor, command: str) -> None:
    words = ("doctor", "--vllm-command", _installed(command))
    found = advisor.on_db(*words, "--json")
    body = found.object
    assert found.code == (6 if body["problems"] else 0)
    assert (body["vllm_version"] is None) == (command == "absent-vllm")
    assert body["cpu_cores"] > 0
    assert body["database_problem"] is None
    assert body["leftovers"] == []
    described = advisor.on_db(*words)
    assert described.code == found.code
    heads = dict.fromkeys(line.split()[0] for line in described.out.splitlines())
    assert list(heads) == [
        "vllm",
        "gpus",
        "cpu",
        "memory",
        "disk",
        "database",
        "leftovers",
        "client",
    ]
    first, *_ = body["client"]["tried"]
    assert first["events_per_s"] == 1_000
    assert first["stamped_at"] in ("kernel", "read")
    assert not advisor.db.exists()


def _installed(command: str) -> str:
    """The stand-in by this tree's code, wherever it is installed."""
    if command == "absent-vllm":
        return command
    return shlex.join([sys.executable, "-c", "from advisor.standin import main; main()"])


@pytest.mark.slow
def test_profiles(advisor: Advisor) -> None:
    facts = advisor("profile", "inspect", "small.jsonl", "--json").object
    assert facts["requests"] > 1000
    described = advisor("profile", "inspect", "small.jsonl").out
    assert f"{facts['rate_rps']:.2f} requests/s" in described
    window = ("profile", "window", "small.jsonl", "--start", "30", "--end", "90")
    cut = advisor(*window, "--out", "cut.jsonl")
    assert (cut.code, cut.out) == (0, "cut.jsonl\n")
    assert "requests, sha256 " in cut.err
    part = advisor("profile", "inspect", "cut.jsonl", "--json").object
    assert part["duration_s"] < 60
    assert part["sha256"] in cut.err
    assert json.loads(Path(advisor.home, "cut.jsonl").read_text().splitlines()[0])
