"""`advisor simulate`: figures on stdout, one JSON object on demand, one line for an error."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from advisor.cli import build
from advisor.terms.errors import InputError

GIVEN = ["simulate", "--model", "llama-3.1-8b", "--profile", "chat-and-documents"]


def test_json_has_the_measurement_and_says_that_it_is_simulated(tmp_path: Path) -> None:
    ended = CliRunner().invoke(
        build(),
        [
            *GIVEN,
            *("--hardware", "h100-sxm", "--json", "--timeline", str(tmp_path / "t.parquet")),
            *("--", "--max-num-batched-tokens", "512", "--no-enable-prefix-caching"),
        ],
    )
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found["simulated"] is True
    assert found["setting"] == {"enable_prefix_caching": False, "max_num_batched_tokens": 512}
    assert found["resolved"]["max_num_seqs"] == 512
    assert found["facts"]["prefix_cache_hits"] == 0
    assert 0 < found["metrics"]["ttft"]["p50_ms"] < found["metrics"]["ttft"]["p99_ms"]
    assert (tmp_path / "t.parquet").stat().st_size > 0


def test_text_shows_percentiles_and_the_pool() -> None:
    ended = CliRunner().invoke(build(), [*GIVEN, "--hardware", "h200"])
    assert ended.exit_code == 0, ended.output
    assert [line.split()[0] for line in ended.stdout.splitlines()[:3]] == [
        "simulated",
        "ttft",
        "itl",
    ]
    assert "KV cache in use" in ended.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--hardware", "h900"], "hardware 'h900': unknown"),
        (["--hardware", "rtx-4090"], "the setting does not start: kv_cache_too_small"),
        (["--hardware", "h200", "--load", "0"], "load is 0; expected 0.001 to 100"),
        (["--hardware", "h200", "--load", "1e-9"], "load is 1e-09; expected 0.001 to 100"),
        (["--hardware", "h200", "--load", "1e3"], "load is 1000; expected 0.001 to 100"),
        (["--hardware", "h200", "--load", "nan"], "load is nan; expected 0.001 to 100"),
        (["--hardware", "h200", "--", "512"], "flags: '512' is not a flag"),
        (["--hardware", "h200", "--", "--max-num-seqs"], "--max-num-seqs without a value: "),
        (["--hardware", "h200", "--", "--max-model-len", "auto"], "is not modelled"),
        (["--hardware", "h200", "--", "--max-model-len", "-1"], "is not modelled"),
        (
            ["--hardware", "h200", "--", "--max-model-len", "64"],
            "requests fits into 64 tokens; expected --max-model-len of at least ",
        ),
    ],
)
def test_what_cannot_be_simulated_is_one_line(words: list[str], text: str) -> None:
    ended = CliRunner().invoke(build(), [*GIVEN, *words])
    assert isinstance(ended.exception, InputError)
    assert text in str(ended.exception)
