"""A real launch with a tight pool, just recorded, is scheduled by the simulator step for step.

`test_predict.py` holds its own launches to the same: other budgets, and prefix caching off.
"""

import asyncio

import pytest

from advisor.engine import VllmEngine
from tests.real.record_steps import LAUNCHES, record, scheduled_alike

pytestmark = [pytest.mark.real, pytest.mark.accept]


def test_the_simulator_schedules_what_the_server_did(engine: VllmEngine, model_path: str) -> None:
    recording = asyncio.run(record(engine, model_path, *LAUNCHES["crowded"]))
    assert recording.preemptions > 0
    assert scheduled_alike(recording)
