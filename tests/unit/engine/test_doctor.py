from pathlib import Path

from advisor.engine.doctor import Diagnosis, Gpu, examine, has_fp8, list_gpus, parse_gpus
from tests.unit.engine.conftest import FAKE

LISTED = "NVIDIA H200, 143771, 143160, 570.86.15\nNVIDIA H200, 143771, 9, 570.86.15\n[N/A]\n"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_what_a_machine_has(tmp_path: Path) -> None:
    found = await examine(FAKE, tmp_path / "not" / "made" / "yet")
    assert found.vllm_version == "0.0.1+fake"
    assert found.vllm_problem is None
    assert 0 < found.memory_available_bytes <= found.memory_total_bytes
    assert found.disk_free_bytes > 0
    assert found.hardware


async def test_a_machine_without_vllm(tmp_path: Path) -> None:
    found = await examine("no-such-vllm", tmp_path)
    assert found.vllm_version is None
    assert found.vllm_problem is not None
    assert "no-such-vllm" in found.vllm_problem


def test_lines_of_nvidia_smi() -> None:
    gpus = parse_gpus(LISTED)
    assert gpus[0] == Gpu("NVIDIA H200", 143771 * 1024**2, 143160 * 1024**2, "570.86.15")
    found = Diagnosis(None, None, gpus, "cpu", 2, 1, 1, 1)
    assert found.hardware == "2x NVIDIA H200"
    assert Diagnosis(None, None, (), "Some CPU", 2, 1, 1, 1).hardware == "Some CPU, 2 cores"


async def test_nvidia_smi_answers_fails_hangs_or_is_absent(tmp_path: Path) -> None:
    answers = script(tmp_path / "answers", f"printf '{LISTED}'")
    assert len(await list_gpus(answers)) == 2
    assert await list_gpus(script(tmp_path / "fails", "exit 9")) == ()
    assert await list_gpus(script(tmp_path / "hangs", "exec sleep 60"), timeout_s=0.2) == ()
    assert await list_gpus("no-such-smi") == ()


async def test_fp8_is_offered_only_where_every_gpu_computes_in_it(tmp_path: Path) -> None:
    assert await has_fp8(script(tmp_path / "hopper", "echo 9.0; echo 9.0"))
    assert await has_fp8(script(tmp_path / "ada", "echo 8.9"))
    assert not await has_fp8(script(tmp_path / "mixed", "echo 9.0; echo 8.0"))
    assert not await has_fp8(script(tmp_path / "old", "echo '[N/A]'"))
    assert not await has_fp8(script(tmp_path / "fails", "exit 6"))
    assert not await has_fp8("no-such-smi")
