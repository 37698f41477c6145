"""A real launch, just recorded, is scheduled by the simulator step for step."""

import asyncio

import pytest

from advisor.calibrate.relive import relive
from advisor.engine import VllmEngine
from tests.real.record_steps import LAUNCHES, record

pytestmark = [pytest.mark.real, pytest.mark.accept]


@pytest.mark.parametrize("name", ["batched-128", "batched-2048-no-caching", "crowded"])
def test_the_simulator_schedules_what_the_server_did(
    engine: VllmEngine, model_path: str, name: str
) -> None:
    recording = asyncio.run(record(engine, model_path, *LAUNCHES[name]))
    found = relive(recording.load(), recording.limits(), recording.logged())
    assert found.mismatch is None
    assert found.steps == len(recording.steps)
    assert (found.preemptions, found.prefix_queries, found.prefix_hits) == (
        recording.preemptions,
        recording.prefix_queries,
        recording.prefix_hits,
    )
