"""Input that must be refused: what is typed, and what the one line must name."""

import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from advisor.profile.write import write_profile
from advisor.store.database import upgrade
from tests.flow.loads import small

ROW = '{"timestamp": 0, "input_length": 100, "output_length": 10}\n'
#: `recommend` with nothing wrong in it, on the files below.
GOOD = {
    "engine": "sim",
    "model": "llama-3.1-8b",
    "hardware": "h100-sxm",
    "profile": "small.jsonl",
    "target": "ttft:p90<=60ms",
    "launches": "1",
    "db": "sqlite:///ledger.db",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One mistake."""

    name: str
    words: tuple[str, ...]
    #: the field and the value at least
    named: tuple[str, ...]


def prepare_files(folder: Path) -> None:
    """Everything that the cases name, good and bad."""
    write_profile(small(), folder / "small.jsonl")
    write_profile(small(duration_s=20), folder / "minute.jsonl")
    write_profile(small(rate_rps=0.5), folder / "sparse.jsonl")
    (folder / "empty.jsonl").write_text("")
    (folder / "malformed.jsonl").write_text(ROW + '{"timestamp": 5, "input_length": "x"}\n')
    (folder / "negative.jsonl").write_text(ROW.replace("100", "-100"))
    (folder / "twice.jsonl").write_text(ROW.replace("{", '{"timestamp": 5, '))
    (folder / "typo.toml").write_text("[knobs.max_num_batched_tokns]\nvalues = [512, 2048]\n")
    (folder / "broken.toml").write_text("[knobs\n")
    (folder / "novalid.toml").write_text(
        "[knobs.max_num_batched_tokens]\nvalues = [512, 2048]\n"
        '[[rules]]\nleft = "max_num_batched_tokens"\nop = ">"\nright = 4096\n'
    )
    (folder / "variant.toml").write_text(
        "[knobs.max_num_batched_tokens]\nvalues = [512, 2048]\n"
        '[variants.plain]\n[variants.other]\nmodel = "llama-9"\n'
    )
    upgrade(f"sqlite:///{folder / 'newer.db'}")
    connection = sqlite3.connect(folder / "newer.db")
    with connection:
        connection.execute("UPDATE advisor_version SET version_num = '9999'")
    connection.execute("PRAGMA journal_mode=delete")
    connection.close()
    upgrade(f"sqlite:///{folder / 'none.db'}")


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, and every folder."""
    found = sorted(folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}


def recommend(name: str, *named: str, extra: tuple[str, ...] = (), **changed: str | None) -> Case:
    """`GOOD` with options changed, or left out where None."""
    options = {**GOOD, **{key.replace("_", "-"): value for key, value in changed.items()}}
    pairs = [(f"--{key}", value) for key, value in options.items() if value is not None]
    return Case(name, ("recommend", *(w for pair in pairs for w in pair), *extra), named)


def on_db(name: str, *words: str, named: tuple[str, ...]) -> Case:
    """Another command, on a database without jobs."""
    return Case(name, (*words, "--db", "sqlite:///none.db"), named)


PROFILES = (
    recommend("missing profile", "profile", "'absent.jsonl'", profile="absent.jsonl"),
    recommend("no profile", "profile is missing", "--profile", profile=None),
    recommend("empty profile", "profile empty.jsonl", "empty", profile="empty.jsonl"),
    recommend(
        "malformed row", "malformed.jsonl", "2", "input_length", "'x'", profile="malformed.jsonl"
    ),
    recommend(
        "negative length", "negative.jsonl", "1", "input_length", "-100", profile="negative.jsonl"
    ),
    recommend("too short to split", "profile small", "too short", profile="minute.jsonl"),
    recommend(
        "too short to decide",
        "target ttft:p99<=60ms",
        "needs about 1500 requests",
        "a profile of about",
        target="ttft:p99<=60ms",
    ),
    recommend("too few requests", "target ttft:p90<=60ms", "150", profile="sparse.jsonl"),
    recommend(
        "does not fit the context as text",
        "max_model_len is 1600",
        "about that length",
        engine="vllm",
        hardware=None,
        vllm_command=sys.executable,
        baseline="--max-model-len 1600",
        extra=("--api", "chat"),
    ),
    recommend(
        "does not fit the context",
        "max_model_len is 1024",
        "1560",
        baseline="--max-model-len 1024",
    ),
)
TARGETS = (
    recommend("no target", "target is missing", target=None),
    recommend("unknown metric", "target", "'latency'", "ttft", target="latency:p90<=60ms"),
    recommend("unknown percentile", "percentile p101", target="ttft:p101<=60ms"),
    recommend("percentile no number", "percentile", "'9.5.1'", target="ttft:p9.5.1<=60ms"),
    recommend("limit without unit", "target", "no unit", "ms", target="ttft:p90<=60"),
    recommend("unknown unit", "target", "'min'", "ms", target="ttft:p90<=60min"),
    recommend("no limit", "target", "'ttft:p90'", target="ttft:p90"),
    recommend(
        "two limits", "target ttft:p90<=70ms", "already", extra=("--target", "ttft:p90<=70ms")
    ),
)
SPACES = (
    recommend(
        "unknown knob", "max_num_batched_tokns", "max_num_batched_tokens", space="typo.toml"
    ),
    recommend("broken space", "space", "TOML", space="broken.toml"),
    recommend("missing space", "space 'absent.toml'", space="absent.toml"),
    recommend("variant of an unknown model", "model", "'llama-9'", space="variant.toml"),
    recommend("no valid setting", "space", "no valid setting", space="novalid.toml"),
)
OPTIONS = (
    recommend("no launches", "launches is 0", launches="0"),
    recommend("unknown model", "model", "'llama-9'", model="llama-9"),
    recommend("no model", "model is missing", model=None),
    recommend("unknown hardware", "hardware", "'abacus'", "h100-sxm", hardware="abacus"),
    recommend("no hardware", "hardware is missing", hardware=None),
    recommend("unknown sampler", "sampler 'luck'", "random", sampler="luck"),
    recommend("unknown objective", "objective 'fame'", "headroom", objective="fame"),
    recommend("unknown engine", "engine 'steam'", "sim", engine="steam"),
    recommend("time without unit", "time budget '5'", time_budget="5"),
    recommend("no time", "time budget '0s'", time_budget="0s"),
    recommend("load of nothing", "load is 0", load="0"),
    recommend("certainty", "confidence is 1", "0.9999", confidence="1"),
    recommend("near certainty", "confidence is 0.9999999", confidence="0.9999999999999999"),
    recommend("too many launches", "launches is 99999999999", "10000", launches="99999999999"),
    recommend(
        "vllm command for the simulator",
        "vllm_command is 'vllm'",
        "--engine vllm",
        extra=("--vllm-command", "vllm"),
    ),
    recommend("GPUs for the simulator", "gpu_sets is '0'", extra=("--gpu-sets", "0")),
    recommend(
        "GPU sets of two sizes",
        "gpu sets '0;1,2'",
        "same number",
        engine="vllm",
        hardware=None,
        extra=("--gpu-sets", "0;1,2"),
    ),
    recommend(
        "a GPU twice",
        "gpu sets '0;0'",
        "GPU 0",
        engine="vllm",
        hardware=None,
        extra=("--gpu-sets", "0;0"),
    ),
    recommend("GPU-hours for the simulator", "gpu_hours is 2.0", extra=("--gpu-hours", "2")),
    recommend(
        "no GPU-hours",
        "gpu hours is 0",
        engine="vllm",
        hardware=None,
        extra=("--gpu-hours", "0"),
    ),
    recommend("GPU-hours no number", "--gpu-hours", "'ten'", extra=("--gpu-hours", "ten")),
    recommend("API for the simulator", "api is 'chat'", "--engine vllm", extra=("--api", "chat")),
    recommend(
        "unknown API", "api 'grpc'", "chat", engine="vllm", hardware=None, extra=("--api", "grpc")
    ),
    recommend("hardware for vllm", "hardware is 'h100-sxm'", "--engine sim", engine="vllm"),
    recommend("GPUs for nothing", "gpu_price is 0", "above 0", extra=("--gpu-price", "0")),
    recommend("a price below nothing", "gpu_price is -2.5", extra=("--gpu-price", "-2.5")),
    recommend("a price without end", "gpu_price is inf", extra=("--gpu-price", "inf")),
    recommend("no price", "gpu_price is nan", extra=("--gpu-price", "nan")),
    recommend("price no number", "--gpu-price", "'much'", extra=("--gpu-price", "much")),
    recommend(
        "a control for a server that runs",
        "control_arm",
        "--engine attach",
        engine="attach",
        hardware=None,
        extra=("--control-arm",),
    ),
    recommend("report without a name", "report is empty", extra=("--report", "")),
    recommend("space is a folder", "space '.'", "expected a TOML file", space="."),
    recommend(
        "digits of another script",
        "'\u0666\u0660'",
        "not a number",
        target="ttft:p90<=\u0666\u0660ms",
    ),
    recommend(
        "field given twice", "twice.jsonl", "timestamp is given twice", profile="twice.jsonl"
    ),
    recommend("option no number", "--seed", "'abc'", seed="abc"),
    recommend("launches no number", "--launches", "'two'", launches="two"),
    recommend("unknown option", "--lauches", extra=("--lauches", "3")),
    recommend("stray word", "stray", extra=("stray",)),
    recommend("report in no folder", "report absent/x.html", report="absent/x.html"),
    recommend("report is a folder", "report .", report="."),
    recommend(
        "missing vllm",
        "vllm",
        "absent-vllm",
        engine="vllm",
        hardware=None,
        vllm_command="absent-vllm --x",
    ),
    recommend(
        "empty vllm",
        "--vllm-command ''",
        "expected the vllm executable",
        engine="vllm",
        hardware=None,
        vllm_command="",
    ),
    recommend(
        "vllm unclosed",
        '--vllm-command "\'unclosed"',
        "No closing quotation",
        "expected the vllm executable",
        engine="vllm",
        hardware=None,
        vllm_command="'unclosed",
    ),
)
BASELINES = (
    recommend("baseline word", "baseline", "'fast'", baseline="fast"),
    recommend("baseline unclosed", "baseline", '"--dtype \'x"', baseline="--dtype 'x"),
    recommend(
        "baseline twice",
        "baseline",
        "max_num_seqs",
        "64",
        "32",
        baseline="--max-num-seqs 64 --max-num-seqs 32",
    ),
    recommend("baseline owned", "baseline", "--port", baseline="--port 8000"),
    recommend(
        "baseline value", "baseline", "--max-num-seqs 'many'", baseline="--max-num-seqs many"
    ),
    recommend("baseline unknown", "baseline", "--max-num-sqs", baseline="--max-num-sqs 64"),
)
DATABASES = (
    recommend("newer schema", "newer.db", "schema 9999", db="sqlite:///newer.db"),
    recommend("unwritable database", "db: ", "/dev/null", db="sqlite:////dev/null/x.db"),
    recommend("database in no folder", "db: ", "absent", db="sqlite:///absent/x.db"),
    recommend("no database URL", "db: ", "'ledger.db'", db="ledger.db"),
    Case("resume without database", ("recommend", "--resume", "7c75827d"), ("holds no jobs yet",)),
    Case(
        "resume with options",
        ("recommend", "--resume", "7c75827d", "--launches", "3"),
        ("--launches", "--resume"),
    ),
    on_db("resume unknown", "recommend", "--resume", "7c75827d", named=("job '7c75827d'",)),
    on_db("show unknown", "show", "7c75827d", named=("job '7c75827d'",)),
    on_db("trials unknown", "trials", "7c75827d", named=("job '7c75827d'",)),
    on_db("report unknown", "report", "7c75827d", "--out", "r.html", named=("job '7c75827d'",)),
    Case(
        "report over a file", ("report", "7c75827d", "--out", "small.jsonl"), ("--out", "--force")
    ),
    Case(
        "report in no folder", ("report", "7c75827d", "--out", "absent/r.html"), ("absent/r.html",)
    ),
    Case("report without a file", ("report", "7c75827d"), ("--out",)),
    on_db(
        "what-if unknown",
        *("what-if", "7c75827d", "--target", "ttft:p90<=60ms"),
        named=("job '7c75827d'",),
    ),
    on_db(
        "what-if relative",
        *("what-if", "7c75827d", "--target", "ttft:p90<=0.5x"),
        named=("target ttft:p90<=0.5x", "ms"),
    ),
    on_db("what-if without target", "what-if", "7c75827d", named=("target is missing",)),
    Case("no job", ("show",), ("JOB",)),
    Case("unknown command", ("recomend",), ("recomend",)),
    Case("unknown trace", ("profile", "import", "other", "small.jsonl"), ("'other'", "azure")),
)
CASES = (*PROFILES, *TARGETS, *SPACES, *OPTIONS, *BASELINES, *DATABASES)
