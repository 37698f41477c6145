"""docs/cli.md: all commands are in it, with help and an example that parses."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from advisor.terms.reasons import RULES, Seen
from docs import generate

COMMANDS = {
    " ".join(path): each for path, each in generate.walk(generate.command_tree(), ("advisor",))
}
LEAVES = {name: each for name, each in COMMANDS.items() if not hasattr(each, "commands")}


def examples(command: Any) -> list[list[str]]:
    """The commands that the help shows, as words."""
    _, _, block = command.help.partition("Example:\n")
    joined = block.partition("\n\n")[0].replace("\\\n", " ")
    return [shlex.split(line) for line in joined.splitlines()]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_all_its_options_have_help_and_are_in_the_page(name: str) -> None:
    page = (generate.DOCS / "cli.md").read_text(encoding="utf-8")
    _, heading, rest = page.partition(f" {name}\n\n")
    assert heading, f"docs/cli.md has no section {name!r}"
    section = rest.partition("\n#")[0]
    command = COMMANDS[name]
    assert command.help
    for parameter in command.params:
        assert parameter.help, f"{name} {parameter.name} has no help"
        assert parameter.help.replace("|", "\\|") in section


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_shows_an_example_that_its_own_parser_takes(name: str) -> None:
    found = examples(LEAVES[name])
    assert found, f"{name} shows no example"
    for words in found:
        own = name.split()
        assert words[: len(own)] == own
        LEAVES[name].make_context(name, words[len(own) :]).close()


def test_the_page_is_what_the_commands_say_now(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


@pytest.fixture(name="copy")
def _copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    monkeypatch.setattr(generate, "DOCS", folder)
    generate.main([])
    return folder / "cli.md"


def test_check_names_a_stale_page_and_writes_nothing(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy.write_text("old\n")
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err.splitlines() == ["docs/cli.md is stale; run: make docs"]
    assert copy.read_text() == "old\n"


def test_check_names_a_page_that_is_not_there(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy.unlink()
    assert generate.main(["--check"]) == 1
    assert "docs/cli.md" in capsys.readouterr().err
    assert not copy.exists()


def test_a_written_page_is_not_stale_whatever_the_terminal(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert generate.main([]) == 0
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("ADVISOR_DB", "sqlite:///elsewhere.db")
    assert generate.main(["--check"]) == 0


def test_another_word_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy.unlink()
    assert generate.main(["--chekc"]) == 2
    assert "--check" in capsys.readouterr().err
    assert not copy.exists()


def test_the_page_of_failures_has_every_reason_with_its_hint() -> None:
    page = generate.failures_page()
    for reason, rule in RULES.items():
        section = page.partition(f"\n## {reason}\n")[2].partition("\n## ")[0]
        assert rule.hint in section
        assert ("never by us on a GPU" in section) is (rule.seen is Seen.NEVER)
