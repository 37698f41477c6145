"""Sets of GPUs: the words, the servers they become, and who has them."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.bench.engines import engines_of
from advisor.bench.live import LiveBench
from advisor.engine import VllmEngine
from advisor.engine.device import FAKE_DEVICE_VARIABLE
from advisor.engine.gpulock import hold
from advisor.store.serde import dump, load
from advisor.terms.advice import Advice
from advisor.terms.errors import Blocked, InputError
from advisor.terms.job import EngineInfo, JobSpec
from advisor.wiring.asked import Asked
from advisor.wiring.gpus import check_gpu_hours, gpu_sets
from advisor.wiring.machine import log_dir
from advisor.wiring.prepare import prepare
from advisor.wiring.spec import spec_of
from tests.contract import examples
from tests.unit.engine.test_device import Driver

ASKED = Asked(
    model="any-model",
    profile="tiny-cpu",
    engine="vllm",
    targets=("itl:p99<=60ms",),
    vllm_command=sys.executable,
)


@pytest.fixture(name="devices")
def _devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Four files that stand for GPUs, and a data folder of this test's own."""
    paths = [tmp_path / f"gpu-{number}" for number in range(4)]
    for path in paths:
        path.touch()
    monkeypatch.setenv(FAKE_DEVICE_VARIABLE, os.pathsep.join(map(str, paths)))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return paths


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (None, (None,)),
        ("0", ("0",)),
        ("0,1", ("0,1",)),
        ("0;1", ("0", "1")),
        (" 0, 1 ;2,3 ", ("0,1", "2,3")),
        ("GPU-a1;MIG-b2;3", ("GPU-a1", "MIG-b2", "3")),
    ],
)
def test_sets_are_parted_by_semicolons(text: str | None, sets: tuple[str | None, ...]) -> None:
    assert replace(examples.SPEC, gpus=gpu_sets(text)).gpu_sets == sets


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected GPUs with commas between them, and semicolons between sets"),
        (";", "expected GPUs with commas"),
        ("0;", "expected GPUs with commas"),
        ("0,,1", "expected GPUs with commas"),
        ("0 1", "expected GPUs with commas"),
        ("0:1", "expected GPUs with commas"),
        ("0;1,2", "the sets have from 1 to 2 GPUs; expected the same number in each"),
        ("0,1;1,2", "GPU 1 is in it twice; expected each once"),
        ("3,3", "GPU 3 is in it twice; expected each once"),
    ],
)
def test_what_are_no_sets_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        gpu_sets(text)
    assert str(caught.value).startswith(f"gpu sets {text!r}: ")
    assert said in str(caught.value)


def test_each_set_has_an_engine_of_its_own(devices: list[Path]) -> None:
    prepared = prepare(spec_of(replace(ASKED, gpu_sets="0,1;2,3")))
    seen = []
    for bench in prepared.benches:
        assert isinstance(bench, LiveBench)
        assert isinstance(bench.engine, VllmEngine)
        seen.append(bench.engine.devices.names())
    assert seen == [tuple(map(str, devices[:2])), tuple(map(str, devices[2:]))]


def test_a_gpu_by_two_names_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(spec_of(ASKED), gpus="0;1")
    Driver(monkeypatch)
    assert len(engines_of(spec, tmp_path)) == 2
    for gpus in ("0;GPU-aaaa-1", "0,GPU-aaaa-1"):
        with pytest.raises(InputError, match="an index and a UUID in it name one GPU"):
            engines_of(replace(spec, gpus=gpus), tmp_path)


@pytest.mark.parametrize("taken", [0, 1])
def test_all_sets_are_held_or_none(taken: int, devices: list[Path]) -> None:
    prepared = prepare(spec_of(replace(ASKED, gpu_sets="0;1")))
    names, locks = [str(path) for path in devices], log_dir().parent / "locks"
    with (
        hold([names[taken]], locks, "another job"),
        pytest.raises(Blocked, match=r"is in use by pid \d+ \(another job\)"),
        prepared.hold("ours"),
    ):
        pytest.fail("it was held")
    with hold(names[:2], locks, "another job"):
        pass  # what it had before it was refused is free again
    with prepared.hold("ours"), pytest.raises(Blocked), hold([names[taken]], locks, "another"):
        pytest.fail("it was held")


def test_sets_and_gpu_hours_are_part_of_the_job(devices: list[Path]) -> None:
    spec = spec_of(replace(ASKED, gpu_sets="0;1", gpu_hours=2.5))
    assert (spec.gpus, spec.gpu_hours) == ("0;1", 2.5)
    assert load(JobSpec, dump(JobSpec, spec)) == spec
    assert len(prepare(load(JobSpec, dump(JobSpec, spec))).benches) == 2


def test_a_job_of_before_there_were_any_has_none() -> None:
    stored = dump(JobSpec, examples.SPEC)
    del stored["gpu_hours"]
    assert load(JobSpec, stored).gpu_hours is None
    engine = dump(EngineInfo, examples.ENGINE)
    del engine["gpus"]
    assert load(EngineInfo, engine).gpus is None
    advice = dump(Advice, examples.advice())
    del advice["gpu_hours"]
    assert load(Advice, advice).gpu_hours is None


def test_gpu_hours_without_gpus_are_refused() -> None:
    spec = replace(examples.SPEC, gpu_hours=2.0)
    check_gpu_hours(spec, replace(examples.ENGINE, gpus=1))
    check_gpu_hours(examples.SPEC, examples.ENGINE)
    with pytest.raises(InputError, match=r"gpu hours is 2; .* finds no GPU .*--time-budget"):
        check_gpu_hours(spec, examples.ENGINE)


@pytest.mark.parametrize("where", ["baseline", "space"])
def test_a_set_with_fewer_gpus_than_a_launch_needs_is_refused(
    where: str, devices: list[Path], tmp_path: Path
) -> None:
    space = tmp_path / "space.toml"
    space.write_text("knobs.tensor_parallel_size.values = [1, 2]\n")
    needs_two = (
        replace(ASKED, baseline="--tensor-parallel-size 2")
        if where == "baseline"
        else replace(ASKED, space=str(space))
    )
    with pytest.raises(InputError) as caught:
        prepare(spec_of(replace(needs_two, gpu_sets="0;1")))
    assert str(caught.value) == (
        "gpu sets '0;1': a launch with --tensor-parallel-size 2 needs 2 GPUs; expected as many in "
        "each set, with commas between them, e.g. 0,1"
    )
    assert len(prepare(spec_of(replace(needs_two, gpu_sets="0,1;2,3"))).beside) == 1
