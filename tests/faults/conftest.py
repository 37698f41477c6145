"""A place for one job: a folder, a device with nothing on it, a mark for its processes."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.jobs import Place
from tests.faults.remains import assert_nothing_remains, launched


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, secrets.token_hex(8))
    place.device.touch()
    try:
        yield place
        assert_nothing_remains(place.folder, place.mark)
    finally:
        # also of a test that failed
        for process in launched(place.mark):
            process.kill()
