"""Server-sent events of one answer, sound or spoiled."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from advisor.standin.answers import Answer
from advisor.standin.faults import Fault
from advisor.standin.live import EngineDead, LiveEngine
from advisor.standin.truth import Sent

DONE = b"data: [DONE]\n\n"
ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


async def events(
    answer: Answer, engine: LiveEngine, sent: Sent, *, short: bool = False
) -> AsyncIterator[bytes]:
    """One event for each step that gave a token, the usage, `[DONE]`.

    With `short` only half of the tokens come, and nothing says so. An engine that dies under it
    ends the stream with an error event.
    """
    options = answer.body.stream_options
    try:
        async for event in _token_events(answer, engine, sent, short):
            if options.include_usage and options.continuous_usage_stats:
                event["usage"] = answer.usage()
            yield encode(event)
        if options.include_usage:
            yield encode(answer.last())
    except EngineDead:
        yield error_event(ENGINE_DEAD)
    finally:
        sent.ended()
    yield DONE


async def _token_events(
    answer: Answer, engine: LiveEngine, sent: Sent, short: bool
) -> AsyncIterator[dict[str, Any]]:
    wanted = max(1, answer.max_tokens // 2) if short else answer.max_tokens
    # Closed with the stream: a client that leaves takes its request out of the batch.
    async with aclosing(engine.generate(answer.prompt, wanted)) as tokens:
        async for count in tokens:
            opening = answer.opening() if answer.generated == 0 else None
            if opening is not None:
                yield opening
            event = answer.chunk(count)
            sent.sending(count)
            yield event


async def spoiled(
    sound: AsyncIterator[bytes], fault: Fault, reset: Callable[[], None]
) -> AsyncIterator[bytes]:
    """The events with a fault in them, after the first one where it is a single spot."""
    number = 0
    async for event in sound:
        number += 1
        match fault:
            case Fault.SPLIT_SSE:
                for position in range(len(event)):
                    yield event[position : position + 1]
                    await asyncio.sleep(0)  # a read may end here
                continue
            case Fault.MISSING_DONE if event == DONE:
                return
            case Fault.RESET if number == 2:
                reset()
                return
            case Fault.ERROR_EVENT if number == 2:
                yield error_event("Internal server error")
                yield DONE
                return
            case Fault.GARBAGE_SSE if number == 2:
                yield b'data: {"id": "cmpl-\n\n'
        yield event


def encode(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def error_event(message: str) -> bytes:
    """An error after the status line has gone out with 200."""
    return encode({"error": error(500, "InternalServerError", message)})


def error(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": None, "code": status}
