import asyncio

import pytest

from advisor.replay.capacity import Carried, carried_per_s, measure_capacity
from advisor.terms.errors import ReplayError
from advisor.terms.traces import ClientAudit


def carried(rate: int, *, bias: float = 0.0, late_ms: float = 0.1) -> Carried:
    return Carried(rate, bias, ClientAudit(0.0, late_ms, late_ms, 0.2, 0.3, 1.0, "kernel", 0.0))


def test_what_is_carried_is_the_highest_rate_seen_truly() -> None:
    assert carried_per_s([carried(1_000), carried(2_000), carried(5_000, bias=0.06)]) == 2_000
    assert carried_per_s([carried(1_000), carried(2_000, late_ms=11)]) == 1_000
    assert carried_per_s([carried(1_000, bias=-0.2)]) == 0


async def test_a_reference_server_that_keeps_silent_is_an_error_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("advisor.replay.capacity._PATIENCE_S", 1e-6)
    with pytest.raises(ReplayError, match=r"reference server did not answer 1,000 events/s"):
        await measure_capacity()


async def test_a_rate_is_tried_against_a_server_that_stamps_its_writes() -> None:
    (tried,) = await asyncio.wait_for(measure_capacity(up_to_per_s=500), 60)
    assert tried.events_per_s == 1_000
    assert tried.audit.events_per_read is not None
    # both saw 20 streams with a gap of 20 ms; a bias beyond this is another quantity
    assert abs(tried.itl_p99_bias) < 5
