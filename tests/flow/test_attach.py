"""A server that someone else runs is measured as the baseline, and judged."""

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.engine.command import free_port
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.advice import Advice, AdviceOutcome
from advisor.terms.errors import InputError
from advisor.terms.job import Phase, Trial
from advisor.wiring.asked import Asked
from advisor.wiring.prepare import prepare
from advisor.wiring.run import run
from advisor.wiring.spec import spec_of
from tests.unit.engine.conftest import wait_for
from tests.unit.tune.jobs import Quiet

MODEL = "llama-3.1-8b"
SIM = [sys.executable, "-c", "import sys; from advisor.standin import main; sys.exit(main())"]
LAX = ("ttft:p95<=60s", "itl:p95<=60s", "errors<=2%")
HOPELESS = ("ttft:p95<=0.001ms", "itl:p95<=60s", "errors<=2%")


@pytest.fixture(name="asked")
def _asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Just above a minute of load; enough for a p95 in three windows of five seconds."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    rows = (
        f'{{"timestamp": {40 * i}, "input_length": 64, "output_length": 8, "hash_ids": [{i}]}}\n'
        for i in range(1600)
    )
    (tmp_path / "load.jsonl").write_text("".join(rows))
    (tmp_path / "load.toml").write_text('schema = 1\nname = "load"\nblock_tokens = 64\n')
    return Asked(
        MODEL, str(tmp_path / "load.jsonl"), "attach", LAX, vllm_command="http://127.0.0.1:9"
    )


@pytest.fixture(name="running")
def _running(tmp_path: Path) -> Iterator[str]:
    url = f"http://127.0.0.1:{free_port()}"
    argv = [*SIM, "serve", MODEL, "--port", url.rpartition(":")[2]]
    with open(tmp_path / "theirs.log", "wb") as log:
        theirs = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        wait_for(lambda: answers(url))
        yield url
        assert theirs.poll() is None, "it was not ours to end"
    finally:
        theirs.kill()
        theirs.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def judged(asked: Asked, db: Path) -> tuple[Advice, list[Trial]]:
    spec = replace(spec_of(asked), rounds=1)
    prepared = prepare(spec)
    about = asyncio.run(prepared.bench.about())
    assert about.kind == "attach"
    assert about.simulated
    with SqlLedger(f"sqlite:///{db}", owner=Owner.this_process()) as ledger:
        job = ledger.open_job(prepared.spec, about)
        advice = asyncio.run(run(prepared, job, ledger, Quiet()))
        return advice, ledger.trials(job.id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "outcome", "confirming"),
    [(LAX, AdviceOutcome.KEEP_CURRENT, 3), (HOPELESS, AdviceOutcome.NONE_MEETS, 0)],
)
def test_what_runs_is_judged(
    targets: tuple[str, ...],
    outcome: AdviceOutcome,
    confirming: int,
    asked: Asked,
    running: str,
    tmp_path: Path,
) -> None:
    asked = replace(asked, targets=targets, vllm_command=running)
    advice, trials = judged(asked, tmp_path / "advisor.db")
    assert advice.outcome is outcome, advice.reasons
    assert [t.phase for t in trials] == [Phase.BASELINE, *[Phase.CONFIRM] * confirming]
    assert {t.token for t in trials} == {None}, "nothing was started"
    at = [m.multiple for t in trials for m in t.result.measurements]
    assert set(at) == {1.0}, "nobody's server gets more load than was asked for"


@pytest.mark.parametrize("over", [{"space": "space.toml"}, {"baseline": "--max-num-seqs 8"}])
def test_what_could_change_it_is_refused(over: dict[str, str], asked: Asked) -> None:
    (name,) = over
    with pytest.raises(InputError, match=rf"{name} .*attach measures a server as it runs"):
        spec_of(replace(asked, space=over.get("space"), baseline=over.get("baseline", "")))


@pytest.mark.parametrize("command", ["vllm", "127.0.0.1:8000"])
def test_an_address_is_asked_for(command: str, asked: Asked) -> None:
    with pytest.raises(InputError, match="takes the address of a running server"):
        prepare(spec_of(replace(asked, vllm_command=command)))
