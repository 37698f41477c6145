"""Two real servers side by side, each on a set of GPUs of its own that a file stands for."""

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from advisor.bench.engines import engines_of
from advisor.bench.live import LiveBench
from advisor.engine.device import FAKE_DEVICE_VARIABLE
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import JobSpec, Phase
from advisor.terms.outcome import TrialState
from advisor.terms.target import parse_target
from advisor.wiring.prepare import Prepared
from advisor.wiring.run import always_valid, run
from tests.faults.jobs import BASELINE, MODEL, Place, Quiet, prepared, spec_of, tiny
from tests.unit.tune.jobs import seqs

SPACE = "[knobs.max_num_seqs]\nvalues = [4, 8, 12]\n"


@pytest.fixture(name="gpus")
def _gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    paths = [tmp_path / "gpu-0", tmp_path / "gpu-1"]
    for path in paths:
        path.touch()
    monkeypatch.setenv(FAKE_DEVICE_VARIABLE, os.pathsep.join(map(str, paths)))
    yield paths
    left = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    ]
    assert left == []


def on_both(folder: Path) -> tuple[JobSpec, Prepared]:
    """With the engines that a job with `--gpu-sets '0;1'` has; no latency decides here."""
    place, profile = Place(folder, "sets", rounds=1), tiny(1)
    spec = replace(
        spec_of(profile, SPACE, 1, launches=5),
        gpus="0;1",
        baseline=f"{BASELINE} --max-num-seqs 16",
        targets=(parse_target("errors<=50%"),),
    )
    first, *others = (LiveBench(profile, engine, MODEL) for engine in engines_of(spec, place.logs))
    return spec, replace(prepared(spec, profile, place), bench=first, beside=tuple(others))


@pytest.mark.slow
def test_two_servers_side_by_side(
    gpus: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no quiet machine is promised to a test: how late its client is, is not judged
    monkeypatch.setattr("advisor.wiring.run.client_gates", always_valid)
    spec, ready = on_both(tmp_path)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with ready.hold("a test"), SqlLedger(url, owner=Owner.this_process()) as ledger:
        about = asyncio.run(ready.bench.about())
        assert about.gpus == 1
        job = ledger.open_job(spec, about)
        watch = Quiet()
        advice = asyncio.run(run(ready, job, ledger, watch))
        trials, replays = ledger.trials(job.id), ledger.played(job.id)
    assert {trial.result.state for trial in trials} == {TrialState.MEASURED}, trials
    assert not any(note.startswith("The search ran") for note in watch.notes)
    search = [trial for trial in trials if trial.phase is Phase.SEARCH]
    assert sorted(map(str, seqs(search))) == ["12", "4", "8"]
    assert len({trial.token for trial in trials}) == len(trials)
    first, second = search[:2]
    assert first.ended_s is not None
    assert second.ended_s is not None
    assert second.elapsed_s is not None
    assert second.ended_s - second.elapsed_s < first.ended_s, "it was open before the other ended"
    launches = [_launches(path) for path in gpus]
    # each trial's server, and the neighbour of the one check
    assert sum(launches) == len(trials) + 1
    assert launches[1] >= 2
    confirming = [trial for trial in trials if trial.phase is Phase.CONFIRM]
    assert launches[0] >= 2 + len(confirming) > 2
    assert all(replays[trial.number] for trial in trials)
    assert advice.gpu_hours is not None
    assert advice.gpu_hours > 0


def _launches(gpu: Path) -> int:
    """Servers that held memory on it."""
    return len({json.loads(line)["pid"] for line in gpu.read_text().splitlines()})
