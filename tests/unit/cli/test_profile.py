"""`advisor profile`: results on stdout, notes on stderr, refusals as InputError."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from advisor.cli.profile import app
from advisor.profile.load import load_profile
from advisor.terms.errors import InputError

CSV = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,10,5\n"
    "2023-11-16 18:17:04.9799600,0,5\n"
    "2023-11-16 18:17:05.9799600,30,5\n"
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text(CSV)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def refusal(*words: str) -> str:
    result = run(*words)
    assert isinstance(result.exception, InputError)
    return str(result.exception)


def test_import_writes_a_profile_named_after_its_trace() -> None:
    result = run("import", "azure", "trace.csv")
    assert result.stdout == "trace.jsonl\n"
    assert "dropped 1 rows where input_length is 0" in result.stderr
    assert "2 requests" in result.stderr
    assert load_profile(Path("trace.jsonl")).dropped == (("input_length is 0", 1),)


def test_import_of_a_ticked_trace_says_how_it_was_spread() -> None:
    row = '{"timestamp":%d,"input_length":9,"output_length":1,"hash_ids":[0]}\n'
    Path("m.jsonl").write_text("".join(row % (3000 * (n // 9)) for n in range(27)))
    result = run("import", "mooncake", "m.jsonl", "--seed", "4", "--out", "spread.jsonl")
    assert "jitter: tick_ms 3000.0, seed 4" in result.stderr
    assert load_profile(Path("spread.jsonl")).block_tokens == 512


def test_files_that_are_there_are_kept_unless_forced() -> None:
    assert run("import", "azure", "trace.csv").exit_code == 0
    assert "trace.jsonl: it is there already" in refusal("import", "azure", "trace.csv")
    assert run("import", "azure", "trace.csv", "--force").exit_code == 0
    Path("trace.jsonl").unlink()
    assert "trace.toml: it is there already" in refusal("import", "azure", "trace.csv")


def test_inspect_prints_facts_for_people_and_for_programs() -> None:
    table = run("inspect", "tiny-cpu").stdout
    assert "2.48 requests/s" in table
    assert "p50 641, p90 1137, p99 1604, max 1783" in table
    facts = json.loads(run("inspect", "tiny-cpu", "--json").stdout)
    assert facts["requests"] == 1488
    assert facts["sessions"] is None
    assert facts["input_tokens"]["p99"] == 1604
    run("import", "azure", "trace.csv")
    table = run("inspect", "trace.jsonl").stdout
    assert "infinite cache hits  not known" in table
    assert "1 rows where input_length is 0" in table


def test_window_and_rescale_write_another_profile() -> None:
    assert run("window", "tiny-cpu", "--start", "60", "--end", "120", "--out", "a.jsonl").stdout
    part = load_profile(Path("a.jsonl"))
    assert part.duration_ns < 60 * 10**9
    assert run("rescale", "a.jsonl", "--input", "2", "--output", "0.5", "--out", "b.jsonl").stdout
    scaled = load_profile(Path("b.jsonl"))
    assert scaled.requests[0].input_length == 2 * part.requests[0].input_length
    assert "cut to 60 s up to 120 s; rescaled by input 2, output 0.5" in scaled.made_by


def test_arrivals_are_cut_then_drawn_then_ramped() -> None:
    words = ("--most-gap", "1", "--cv", "1", "--rate", "5", "--seed", "3", "--ramp", "2")
    assert run("arrivals", "tiny-cpu", *words, "--out", "a.jsonl").stdout == "a.jsonl\n"
    made = load_profile(Path("a.jsonl"))
    assert len(made.requests) == 1488
    assert made.duration_ns / 1e9 == pytest.approx(1488 / 5, rel=0.1)
    steps = made.made_by.split("; ")[-3:]
    assert [step.split()[0] for step in steps] == ["gaps", "arrivals", "rate"]
    assert "at 5 requests/s, cv 1, seed 3" in steps[1]


def test_pauses_can_be_left_out() -> None:
    row = '{"timestamp":%d,"input_length":9,"output_length":1,"session_id":"a"%s}\n'
    Path("p.jsonl").write_text(row % (0, "") + row % (9, ',"pause":5'))
    run("arrivals", "p.jsonl", "--no-pauses", "--out", "plain.jsonl")
    assert [r.pause_ns for r in load_profile(Path("plain.jsonl")).requests] == [None, None]


def test_synth_makes_the_shipped_profile_again() -> None:
    run("synth", "tiny-cpu")
    run("synth", "tiny-cpu", "--seed", "2", "--out", "other.jsonl")
    made = load_profile(Path("tiny-cpu.jsonl"))
    facts = json.loads(run("inspect", "tiny-cpu", "--json").stdout)
    assert facts["sha256"] == made.sha256 != load_profile(Path("other.jsonl")).sha256


def test_bad_input_is_refused_in_one_line() -> None:
    assert "no such file" in refusal("inspect", "absent.jsonl")
    assert "no such file" in refusal("import", "azure", "absent.csv")
    assert "expected a name like" in refusal("import", "azure", "trace.csv", "--out", "t.csv2")
    assert "0 <= start < end" in refusal("window", "tiny-cpu", "--start", "5", "--end", "5")
    assert "input factor" in refusal("rescale", "tiny-cpu", "--input", "0")
    assert "nothing to change" in refusal("arrivals", "tiny-cpu")
    assert "--rate 3 is given without --cv" in refusal("arrivals", "tiny-cpu", "--rate", "3")
    assert "--seed 3 is given without --cv" in refusal("arrivals", "tiny-cpu", "--seed", "3")
    assert "most gap is 0" in refusal("arrivals", "tiny-cpu", "--most-gap", "0")
    assert "no profile 'x'" in refusal("synth", "x")
    assert not Path("tiny-cpu.jsonl").exists()
    assert run("import", "other", "trace.csv").exit_code == 2
