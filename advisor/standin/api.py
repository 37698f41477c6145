"""The HTTP surface of `vllm serve`, as far as load generators and supervisors use it."""

import asyncio
import json
import random
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from advisor import __version__
from advisor.standin.exposition import metrics_text, server_info
from advisor.standin.live import LiveEngine

#: Ids below are special tokens in most vocabularies.
_FIRST_ORDINARY_ID = 256


class StreamOptions(BaseModel):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class CompletionRequest(BaseModel):
    """The fields of `/v1/completions` that matter here; all others are ignored.

    Every completion runs to `max_tokens`: a stand-in has no end-of-sequence token to stop at.
    """

    prompt: str | list[int] | list[str] | list[list[int]]
    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 16
    n: Annotated[int, Field(ge=1, le=1)] = 1
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False


class Refused(Exception):
    """A request that vLLM answers with an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Completion:
    """One request on its way: the tokens so far, and the JSON that tells of them."""

    def __init__(self, body: CompletionRequest, prompt: list[int], name: str, seed: int) -> None:
        self.body = body
        self.prompt = prompt
        self.generated = 0
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": name,
        }
        self._random = random.Random(f"{seed} {len(prompt)} {prompt[-1]}")

    def chunk(self, count: int, vocab: int) -> dict[str, Any]:
        """The next `count` tokens, in the form of one stream event."""
        low = min(_FIRST_ORDINARY_ID, vocab - 1)
        ids = [self._random.randrange(low, vocab) for _ in range(count)]
        first, self.generated = self.generated == 0, self.generated + count
        finished = self.generated >= self.body.max_tokens
        choice: dict[str, Any] = {
            "index": 0,
            "text": "".join(f" {each}" for each in ids),
            "logprobs": None,
            "finish_reason": "length" if finished else None,
            "stop_reason": None,
        }
        if self.body.return_token_ids:
            choice["token_ids"] = ids
            choice["prompt_token_ids"] = self.prompt if first else None
        return {**self._head, "choices": [choice]}

    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": len(self.prompt),
            "completion_tokens": self.generated,
            "total_tokens": len(self.prompt) + self.generated,
        }

    def last(self) -> dict[str, Any]:
        """The usage event that ends a stream."""
        return {**self._head, "choices": [], "usage": self.usage()}


def create_app(engine: LiveEngine, names: tuple[str, ...], seed: int) -> FastAPI:
    """The server of one engine under one or more model names."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        steps = asyncio.create_task(engine.run())
        yield
        steps.cancel()
        with suppress(asyncio.CancelledError):
            await steps

    app = FastAPI(title="vllm-sim", lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.exception_handler(Refused)
    async def refused(_: Request, exc: Refused) -> Response:
        return _error(exc.status, exc.kind, str(exc))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> Response:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in error['loc'][1:])}: {error['msg']}"
            for error in exc.errors()
        )
        return _error(400, "BadRequestError", wrong)

    app.include_router(_about(engine, names))

    @app.post("/v1/completions")
    async def completions(body: CompletionRequest) -> Response:
        completion = Completion(body, _checked_prompt(body, engine, names), names[0], seed)
        if body.stream:
            return StreamingResponse(_events(completion, engine), media_type="text/event-stream")
        return JSONResponse(await _whole(completion, engine))

    return app


def _about(engine: LiveEngine, names: tuple[str, ...]) -> APIRouter:
    """What the server tells about itself."""
    routes = APIRouter()

    @routes.get("/health")
    async def health() -> Response:
        return Response(status_code=503 if engine.is_dead else 200)

    @routes.get("/version")
    async def version() -> dict[str, Any]:
        return {"version": f"vllm-sim {__version__}", "stand_in": True}

    @routes.get("/server_info")
    async def info() -> dict[str, Any]:
        return server_info(engine.config)

    @routes.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(metrics_text(engine, names[0]))

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        length = engine.config.max_model_len
        cards = [
            {"id": name, "object": "model", "owned_by": "vllm-sim", "max_model_len": length}
            for name in names
        ]
        return {"object": "list", "data": cards}

    return routes


def _checked_prompt(
    body: CompletionRequest, engine: LiveEngine, names: tuple[str, ...]
) -> list[int]:
    """The prompt's token ids; raises Refused for what vLLM refuses.

    A text counts one token for each UTF-8 byte, like a byte-level tokeniser without merges.
    """
    if body.model is not None and body.model not in names:
        raise Refused(404, "NotFoundError", f"The model `{body.model}` does not exist.")
    prompt: object = body.prompt
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        if len(prompt) > 1:
            raise Refused(400, "BadRequestError", "prompt: the stand-in takes one a request")
        prompt = prompt[0]
    ids = list(prompt.encode()) if isinstance(prompt, str) else prompt
    if not isinstance(ids, list) or not ids:
        raise Refused(400, "BadRequestError", "prompt: must not be empty")
    vocab, longest = engine.config.model.vocab, engine.config.max_model_len
    if not 0 <= min(ids) <= max(ids) < vocab:
        raise Refused(400, "BadRequestError", f"prompt: token ids must be in 0..{vocab - 1}")
    if len(ids) + body.max_tokens > longest:
        raise Refused(
            400,
            "BadRequestError",
            f"This model's maximum context length is {longest} tokens. However, you requested "
            f"{body.max_tokens} output tokens and your prompt contains {len(ids)} input tokens.",
        )
    return ids


async def _events(completion: Completion, engine: LiveEngine) -> AsyncIterator[bytes]:
    """Server-sent events: one for each step that gave a token, the usage, `[DONE]`."""
    options = completion.body.stream_options or StreamOptions()
    # Closed with the stream: a client that leaves takes its request out of the batch.
    async with aclosing(engine.generate(completion.prompt, completion.body.max_tokens)) as tokens:
        async for count in tokens:
            event = completion.chunk(count, engine.config.model.vocab)
            if options.include_usage and options.continuous_usage_stats:
                event["usage"] = completion.usage()
            yield _event(event)
    if options.include_usage:
        yield _event(completion.last())
    yield b"data: [DONE]\n\n"


async def _whole(completion: Completion, engine: LiveEngine) -> dict[str, Any]:
    async for count in engine.generate(completion.prompt, completion.body.max_tokens):
        completion.generated += count
    count, completion.generated = completion.generated, 0
    answer = completion.chunk(count, engine.config.model.vocab)
    return {**answer, "usage": completion.usage()}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def _error(status: int, kind: str, message: str) -> Response:
    error = {"message": message, "type": kind, "param": None, "code": status}
    return JSONResponse({"error": error}, status_code=status)
