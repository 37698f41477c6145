"""A replay begins on an idle server, or is told what was at work."""

from collections.abc import Awaitable, Callable

from advisor.bench.drain import drained
from advisor.terms.job import ServerFacts


def reader(*readings: ServerFacts) -> Callable[[], Awaitable[ServerFacts]]:
    """The readings in their order, the last one for ever."""
    left = list(readings)

    async def read() -> ServerFacts:
        return left.pop(0) if len(left) > 1 else left[0]

    return read


async def test_it_waits_until_nothing_runs_and_nothing_waits() -> None:
    readings = [ServerFacts(running_max=r, waiting_max=w) for r, w in ((2, 1), (0, 1), (0, 0))]
    read = reader(*readings, ServerFacts(running_max=9, waiting_max=9))
    assert await drained(read, most_s=60) == ""
    assert (await read()).running_max == 9, "three readings were taken"


async def test_what_does_not_end_is_told() -> None:
    assert await drained(reader(ServerFacts(running_max=2, waiting_max=3)), most_s=0.0) == (
        "2 running and 3 waiting requests before the replay, 0 s after ours had ended: "
        "not this replay's alone"
    )


async def test_a_server_that_does_not_tell_is_drained() -> None:
    assert await drained(reader(ServerFacts()), most_s=0.0) == ""
    assert await drained(reader(ServerFacts(running_max=0)), most_s=0.0) == ""
