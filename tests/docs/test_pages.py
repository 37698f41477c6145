"""README, changelog and docs: no link leads nowhere, no dependency stands without a reason."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from advisor.advice.as_json import as_json
from advisor.advice.background import Background, Served
from advisor.advice.explanation_json import explanation_json
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Job
from tests.contract.examples import ENGINE, SPEC, TARGETS, advice
from tests.unit.advice.ladders import facts
from tests.unit.advice.test_explanation import BASE, WINNER, explained

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
#: packages whose module has another name
_IMPORTED_AS = {"nvidia-ml-py": "pynvml"}
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    """Relative ones; code is no link."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in _LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Of the headings, as Markdown viewers make them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{page.name} links to {link}"
        assert target.is_relative_to(ROOT), f"{page.name} links out of the project: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        left += [each for each in found if each.suffix == ".md" and each not in reached]
    assert set(PAGES) <= reached


def test_the_commands_that_the_readme_begins_with_are_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first_block = re.search(r"^```\w*\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert first_block
    words = [line.partition("#")[0].strip() for line in first_block[1].splitlines()]
    assert words == ["make demo", "make test"]
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo:", targets, re.MULTILINE)
    assert re.search(r"^test:", targets, re.MULTILINE)


def direct_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    listed = [*project["dependencies"], *(each for extra in extras for each in extra)]
    return {re.split(r"[^A-Za-z0-9_.-]", each)[0] for each in listed}


def test_every_direct_dependency_has_its_line_and_no_other_has() -> None:
    told = re.findall(r"^\| `([^`]+)` \|", dependencies_page(), re.MULTILINE)
    assert sorted(told) == sorted(direct_dependencies())


def test_the_rooms_of_a_dependency_are_those_that_import_it() -> None:
    runtime = dependencies_page().partition("## For development")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", runtime, re.MULTILINE)
    told = {
        _IMPORTED_AS.get(package, package.replace("-", "_")): set(rooms.split(", "))
        for package, rooms in rows
    }
    seen: dict[str, set[str]] = {package: set() for package in told}
    for path in [*(ROOT / "advisor").rglob("*.py"), *(ROOT / "migrations").rglob("*.py")]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        room = parts[0] if parts[0] == "migrations" else parts[1]
        for package in imported(path) & seen.keys():
            seen[package].add(room)
    assert seen == told


def dependencies_page() -> str:
    return (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")


def imported(path: Path) -> set[str]:
    """Top-level names of what a module imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_the_readme_tells_every_outcome_with_its_exit_code() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", readme, re.MULTILINE))
    assert told == {str(outcome): str(outcome.exit_code) for outcome in AdviceOutcome}


def test_every_field_of_the_json_is_explained() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    told = set(re.findall(r"[`\"](\w+)[`\"]", page))
    job = Job("1f0c9a2b", SPEC, TARGETS, ENGINE, created_at="", state="done")
    body = as_json(job, advice())
    assert body["targets"]
    assert body["metrics"]
    assert fields(body) - set(body["setting"]) <= told


def test_every_field_of_the_explanation_is_explained() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    told = set(re.findall(r"[`\"](\w+)[`\"]", page))
    replays = tuple(Served(each, "w", 1.0, facts()) for each in (WINNER, BASE.setting))
    body = explanation_json(explained(background=Background(replays)))
    assert all(body[part] for part in ("knobs", "target_costs", "trade_off", "time_spent"))
    settings = {name for spent in body["time_spent"] for name in spent["setting"]}
    assert fields(body) - settings <= told


def fields(value: object) -> set[str]:
    """All keys, at any depth."""
    if isinstance(value, list):
        return set().union(*map(fields, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(fields, value.values()))
