"""Requests played against a real server by Advisor's own load generator."""

from collections.abc import Sequence

from advisor.engine import Endpoint
from advisor.replay.client import replay
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import RequestStatus, Traces


async def play(
    server: Endpoint, requests: Sequence[PlannedRequest], block_tokens: int, window_ns: int
) -> Traces:
    """To their end, which all must reach; the window begins with the first one's clock."""
    traces = await replay(
        requests,
        server.base_url,
        server.served_model_name,
        block_tokens=block_tokens,
        vocab_size=8_000,
        window_start_ns=0,
        window_end_ns=window_ns,
        request_timeout_s=240,
        stall_timeout_s=120,
        alive=lambda: server.failure() is None,
    )
    assert (traces.status == RequestStatus.OK).all(), traces.status
    return traces
