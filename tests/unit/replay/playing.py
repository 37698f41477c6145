"""Plans for the tests, and their replay."""

import itertools
from collections.abc import Callable

from advisor.replay.client import replay
from advisor.terms.job import Api
from advisor.terms.profile import PlannedRequest
from advisor.terms.traces import Look, Traces

BLOCK_TOKENS = 8
_ids = itertools.count(1)


def request(
    at_ms: float, input_length: int, output_length: int = 3, *, counted: bool = True
) -> PlannedRequest:
    blocks = -(-input_length // BLOCK_TOKENS)
    ids = tuple(itertools.islice(_ids, blocks))
    return PlannedRequest(round(at_ms * 1e6), input_length, output_length, ids, counted)


async def play(
    url: str,
    *requests: PlannedRequest,
    request_timeout_s: float = 20.0,
    stall_timeout_s: float = 20.0,
    window_start_ms: int = 0,
    window_end_ms: int = 10_000,
    alive: Callable[[], bool] = lambda: True,
    on_progress: Callable[[float], None] | None = None,
    api: Api = Api.COMPLETIONS,
    look: Look | None = None,
) -> Traces:
    return await replay(
        requests,
        url,
        "tiny",
        block_tokens=BLOCK_TOKENS,
        vocab_size=500,
        window_start_ns=window_start_ms * 1_000_000,
        window_end_ns=window_end_ms * 1_000_000,
        request_timeout_s=request_timeout_s,
        stall_timeout_s=stall_timeout_s,
        alive=alive,
        on_progress=on_progress,
        api=api,
        look=look,
    )


def tokens_of(traces: Traces, index: int) -> list[int]:
    """Tokens per event of one request."""
    first, end = traces.event_offsets[index : index + 2]
    return [int(count) for count in traces.event_tokens[first:end]]
