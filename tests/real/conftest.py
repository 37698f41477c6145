"""A real vLLM for CPUs, a tiny model, and one server that the measuring tests share."""

import asyncio
import os
import subprocess
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import pytest

from advisor.engine import Endpoint, VllmEngine
from advisor.terms.flags import FlagValue
from advisor.terms.setting import Setting
from tests.real import install

HERE = Path(__file__).parent
#: what the tiny model needs on a CPU: bfloat16 is emulated there, and there is nothing to compile
FIXED: dict[str, FlagValue] = {
    "dtype": "float32",
    "enforce_eager": True,
    "load_format": "dummy",
    "max_model_len": 2048,
}
T = TypeVar("T")


@pytest.fixture(scope="session")
def vllm_command() -> str:
    """ADVISOR_TEST_VLLM, else what `python tests/real/install.py` has built.

    Tests do not build it: it takes minutes and half a gigabyte from the package index.
    """
    if given := os.environ.get("ADVISOR_TEST_VLLM"):
        return given
    target = install.target_dir()
    if not install.is_ready(target):
        message = f"no vLLM at {target}; build it with: python tests/real/install.py"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return str(target / "bin" / "vllm")


@pytest.fixture(scope="session")
def model_path(vllm_command: str) -> str:
    """The folder of the tiny model."""
    return made_model(vllm_command, "tiny")


@pytest.fixture(scope="session")
def make_setting(model_path: str) -> "SettingMaker":
    return SettingMaker(model_path)


def made_model(vllm_command: str, kind: str) -> str:
    """The folder of a model, which is made where there is none yet."""
    python = Path(vllm_command).with_name("python")
    argv = [str(python), str(HERE / "tiny_model.py"), kind]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


class SettingMaker:
    """Settings of the tiny model: the fixed flags, the baseline's, and a test's own over them."""

    def __init__(self, model_path: str) -> None:
        self.model_path = model_path

    def __call__(self, **knobs: FlagValue) -> Setting:
        baseline = {"gpu_memory_utilization": 0.3, "max_num_batched_tokens": 2048}
        flags = {**FIXED, **baseline, **knobs}
        return Setting.of(self.model_path, flags, knobs=tuple(knobs))


@pytest.fixture(scope="session")
def engine(vllm_command: str, tmp_path_factory: pytest.TempPathFactory) -> VllmEngine:
    return VllmEngine(
        vllm_command,
        log_dir=tmp_path_factory.mktemp("vllm-logs"),
        extra_env={"HF_HUB_OFFLINE": "1"},
        start_timeout_s=300,
        stop_grace_s=15,
    )


@pytest.fixture(scope="module")
def shared_server(engine: VllmEngine, make_setting: SettingMaker) -> Iterator[Endpoint]:
    """One server of the baseline for a file's tests that only measure; they must not stop it.

    It ends with the file: a whole job needs the machine for itself.
    """
    with _Loop() as loop:
        serving: AbstractAsyncContextManager[Endpoint] = engine.serve(make_setting())
        endpoint = loop.run(serving.__aenter__())
        try:
            yield endpoint
        finally:
            loop.run(serving.__aexit__(None, None, None))


class _Loop:
    """An event loop that outlives single tests."""

    def __enter__(self) -> "_Loop":
        self._runner = asyncio.Runner()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self._runner.run(work)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts take a minute on two cores."""
    for item in items:
        real = HERE in item.path.parents and item.get_closest_marker("real")
        if real and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
