"""Before a replay: nothing of what came before it may still be at work in the server."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from advisor.terms.job import ServerFacts

_POLL_S = 0.2


async def drained(read: Callable[[], Awaitable[ServerFacts]], most_s: float) -> str:
    """Wait until the server has no request running and none waiting, for `most_s` at most.

    `read` gives its counters now. Returns what is still open then, for a person; empty when it is
    drained. A server that does not tell is drained: all requests of ours have ended by now.
    """
    deadline = time.monotonic() + most_s
    while True:
        now = await read()
        running, waiting = now.running_max or 0.0, now.waiting_max or 0.0
        if running + waiting == 0:
            return ""
        if time.monotonic() > deadline:
            return (
                f"{running:.0f} running and {waiting:.0f} waiting requests before the replay, "
                f"{most_s:g} s after ours had ended: not this replay's alone"
            )
        await asyncio.sleep(_POLL_S)
