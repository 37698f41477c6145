"""Flags are held against the command's own list before anything is launched."""

import sys
from pathlib import Path

import pytest

from advisor.engine import VllmEngine
from advisor.engine.command import check_flags, known_flags
from advisor.terms.errors import InputError
from tests.unit.engine.conftest import FAKE, make_engine

KNOWN = frozenset({"--max-num-seqs", "--compilation-config", "--no-enable-x"})


@pytest.mark.parametrize("name", ["max_num_seqs", "compilation_config.mode", "enable_x"])
def test_a_flag_of_this_version(name: str) -> None:
    check_flags([("baseline", name)], KNOWN, "0.33.0")


@pytest.mark.parametrize("where", ["baseline", "space"])
def test_a_flag_of_another_version_is_refused_by_name_and_version(where: str) -> None:
    with pytest.raises(InputError) as caught:
        check_flags([("space", "max_num_seqs"), (where, "swap_space")], KNOWN, "0.33.0")
    assert str(caught.value) == (
        f"{where}: --swap-space is no flag of vLLM 0.33.0; see `vllm serve --help=all`"
    )


async def test_the_engine_asks_its_command(mark: str, tmp_path: Path) -> None:
    engine = make_engine(mark, tmp_path / "logs")
    await engine.check_flags([("baseline", "max_num_seqs"), ("space", "enable_x")], "1")
    with pytest.raises(InputError, match="--swap-space is no flag of vLLM 1;"):
        await engine.check_flags([("baseline", "swap_space")], "1")


async def test_the_answer_is_kept_by_version_and_executable(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text(f'#!/bin/sh\nexec {FAKE[0]} {FAKE[1]} "$@"\n')
    script.chmod(0o755)

    async def ask(version: str) -> frozenset[str] | None:
        return await known_flags([str(script)], version, {}, 60, tmp_path / "flags")

    known = await ask("1")
    assert known is not None
    assert len(known) > 20
    (kept,) = (tmp_path / "flags").iterdir()
    kept.write_text('["--only"]')
    assert await ask("1") == frozenset({"--only"})
    kept.write_text("cut off")
    assert await ask("1") == known
    assert await ask("2") == known
    script.touch()
    assert await ask("2") == known
    assert len(list((tmp_path / "flags").iterdir())) == 3


async def test_where_nothing_can_be_kept_the_answer_is_given_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "flags").touch()
    known = await known_flags(FAKE, "1", {}, 60, tmp_path / "flags")
    assert known is not None
    assert "--max-num-seqs" in known


@pytest.mark.parametrize("code", ["raise SystemExit(2)", "print('--one --two')"])
async def test_a_command_without_a_list_knows_every_flag(code: str, tmp_path: Path) -> None:
    engine = VllmEngine([sys.executable, "-c", code], log_dir=tmp_path / "logs")
    await engine.check_flags([("baseline", "swap_space")], "1")
    assert not (tmp_path / "flags").exists()


@pytest.mark.parametrize("name", ["true", "cat", "ls"])
async def test_a_program_that_is_not_vllm_is_refused(name: str, tmp_path: Path) -> None:
    engine = VllmEngine(name, log_dir=tmp_path / "logs")
    with pytest.raises(InputError) as caught:
        await engine.check_flags([], await engine.version())
    said = str(caught.value)
    assert said.startswith(f"--vllm-command '{engine.command[0]}': it lists no flags of `vllm")
    assert "expected the vllm executable" in said
    assert not (tmp_path / "flags").exists()


async def test_a_release_without_help_all_lists_its_flags_too(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text(
        f'#!/bin/sh\n[ "$2" = --help ] || exit 2\nexec {FAKE[0]} {FAKE[1]} serve --help=all\n'
    )
    script.chmod(0o755)
    known = await known_flags([str(script)], "0.8.5", {}, 60, tmp_path / "flags")
    assert known is not None
    assert "--max-num-seqs" in known


async def test_the_stand_in_is_taken_even_where_it_lists_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit(2)"]
    assert await known_flags(command, "vllm-sim 0.1.0", {}, 60, tmp_path / "flags") is None
