"""A command line with a home of its own, and one finished job to look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.command import Advisor, Ended
from tests.flow.jobs import SMALL_JOB, Finished
from tests.flow.loads import write_small


@pytest.fixture(autouse=True, scope="session")
def _one_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A profile is rehearsed once for all jobs with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(name="advisor")
def _advisor(tmp_path: Path) -> Advisor:
    """In a folder that holds `small.jsonl` and nothing else."""
    write_small(tmp_path / "small.jsonl")
    return Advisor(tmp_path)


@pytest.fixture(name="finished", scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Only to be read."""
    home = tmp_path_factory.mktemp("finished")
    write_small(home / "small.jsonl")
    advisor = Advisor(home)
    ended = advisor.on_db(*SMALL_JOB, "--json", "--report", "report.html")
    assert ended.code == 0, ended
    return Finished(advisor, ended)


@pytest.fixture(name="described", scope="session")
def _described(finished: Finished) -> Ended:
    """The finished job as a person reads it."""
    return finished.advisor.on_db("recommend", "--resume", finished.job)
