"""A whole job's replays, taken out by the command."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.flow.command import refused
from tests.flow.jobs import Finished


def test_every_format_has_every_replay(finished: Finished, tmp_path: Path) -> None:
    advisor, job = finished.advisor, finished.job
    benched = advisor.on_db("export", job, "--format", "vllm-bench")
    assert (benched.code, benched.err) == (0, "")
    replays = [json.loads(line) for line in benched.out.splitlines()]
    assert len(replays) == finished.advice["replays"]
    assert {replay["model_id"] for replay in replays} == {"llama-3.1-8b"}

    written = tmp_path / "requests.csv"
    told = advisor.on_db("export", job, "--format", "csv", "--out", str(written))
    assert (told.code, told.out, told.err) == (0, "", "")
    with written.open(newline="") as file:
        rows = list(csv.DictReader(file))
    counted = sum(row["counted"] == "True" for row in rows)
    assert counted == sum(replay["num_prompts"] for replay in replays)

    table = tmp_path / "requests.parquet"
    assert advisor.on_db("export", job, "--format", "parquet", "--out", str(table)).code == 0
    read = pq.read_table(table, columns=["trial", "ttft_ms", "event_ms"])
    assert read.num_rows == len(rows)
    assert set(read["trial"].to_pylist()) == {int(row["trial"]) for row in rows}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--format", "parquet"), "out is missing; format parquet needs a file"),
        (
            ("--format", "xlsx"),
            "--format is 'xlsx'; expected one of 'parquet', 'csv', 'jsonl', 'vllm-bench'\n",
        ),
        (("--format", "csv", "--out", "no/such/folder/x.csv"), "out no/such/folder/x.csv"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    finished: Finished, words: tuple[str, ...], named: str
) -> None:
    refused(finished.advisor.on_db("export", finished.job, *words), named)


def test_a_file_that_is_there_is_replaced_only_when_asked(
    finished: Finished, tmp_path: Path
) -> None:
    written = tmp_path / "requests.csv"
    written.write_text("mine")
    words = ("export", finished.job, "--format", "csv", "--out", str(written))
    refused(finished.advisor.on_db(*words), f"--out {written}", "there already", "--force")
    assert written.read_text() == "mine"
    assert finished.advisor.on_db(*words, "--force").code == 0
    assert written.read_text().startswith("trial,")
    written.unlink()
    assert finished.advisor.on_db(*words).code == 0
    assert written.exists()


def test_an_unknown_job_is_named(finished: Finished) -> None:
    ended = finished.advisor.on_db("export", "00000000", "--format", "csv")
    refused(ended, "job '00000000' is not in the ledger")
