"""The HTTP surface of `vllm serve`, as far as load generators and supervisors use it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from advisor import __version__
from advisor.standin import bodies, stream
from advisor.standin.answers import Answer, ChatAnswer
from advisor.standin.bodies import ChatRequest, CompletionRequest, Refused, TokenizeRequest
from advisor.standin.connections import Connections
from advisor.standin.exposition import metrics_text, server_info
from advisor.standin.faults import Fault
from advisor.standin.live import EngineDead, LiveEngine
from advisor.standin.misbehave import Conduct
from advisor.standin.truth import Sent


@dataclass(frozen=True, slots=True)
class Serving:
    """One server: an engine under one or more model names, and how it behaves."""

    engine: LiveEngine
    names: tuple[str, ...]
    seed: int
    conduct: Conduct
    connections: Connections = field(default_factory=Connections)
    #: every request, in the order of arrival
    truth: list[Sent] = field(default_factory=list)


def create_app(serving: Serving) -> FastAPI:
    """The application of one server."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        steps = asyncio.create_task(serving.engine.run())
        serving.conduct.serving()
        yield
        steps.cancel()
        with suppress(asyncio.CancelledError):
            await steps

    app = FastAPI(title="vllm-sim", lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.exception_handler(Refused)
    async def refused(_: Request, exc: Refused) -> Response:
        return _error(exc.status, exc.kind, str(exc))

    @app.exception_handler(EngineDead)
    async def dead(_: Request, exc: EngineDead) -> Response:
        return _error(500, "InternalServerError", stream.ENGINE_DEAD)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> Response:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in error['loc'][1:])}: {error['msg']}"
            for error in exc.errors()
        )
        return _error(400, "BadRequestError", wrong)

    app.include_router(_about(serving))
    app.include_router(_generation(serving))
    return app


def _about(serving: Serving) -> APIRouter:
    """What the server tells about itself."""
    routes, engine, names = APIRouter(), serving.engine, serving.names

    @routes.get("/health")
    async def health() -> Response:
        await asyncio.sleep(serving.conduct.health_delay_s)
        return Response(status_code=200 if serving.conduct.is_healthy else 503)

    @routes.get("/version")
    async def version() -> dict[str, Any]:
        return {"version": f"vllm-sim {__version__}", "stand_in": True}

    @routes.get("/server_info")
    async def info() -> dict[str, Any]:
        return server_info(engine.config)

    @routes.get("/metrics")
    async def metrics() -> Response:
        if not serving.conduct.asked_for_metrics():
            raise Refused(404, "NotFoundError", "Not Found")
        return PlainTextResponse(metrics_text(engine, names[0], serving.conduct.prefix_hits))

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        length = engine.config.max_model_len
        cards = [
            {"id": name, "object": "model", "owned_by": "vllm-sim", "max_model_len": length}
            for name in names
        ]
        return {"object": "list", "data": cards}

    @routes.post("/reset_prefix_cache")
    async def reset_prefix_cache() -> dict[str, Any]:
        return {"success": engine.reset_prefix_cache()}

    @routes.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> dict[str, Any]:
        bodies.check_model(body.model, names)
        ids, length = body.ids(), engine.config.max_model_len
        return {"count": len(ids), "max_model_len": length, "tokens": ids, "token_strs": None}

    return routes


def _generation(serving: Serving) -> APIRouter:
    """What takes tokens and gives some."""
    routes, names = APIRouter(), serving.names
    longest, vocab = serving.engine.config.max_model_len, serving.engine.config.model.vocab

    @routes.post("/v1/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        bodies.check_model(body.model, names)
        ids = body.prompt_ids()
        bodies.check_ids(ids, body.max_tokens, vocab, longest)
        args = (body, ids, body.max_tokens, names[0])
        return await _respond(Answer(*args, seed=serving.seed, vocab=vocab), request, serving)

    @routes.post("/v1/chat/completions")
    async def chat(body: ChatRequest, request: Request) -> Response:
        bodies.check_model(body.model, names)
        ids = body.prompt_ids()
        limit = body.max_completion_tokens or body.max_tokens or longest - len(ids)
        bodies.check_ids(ids, limit, vocab, longest)
        args = (body, ids, limit, names[0])
        return await _respond(ChatAnswer(*args, seed=serving.seed, vocab=vocab), request, serving)

    return routes


async def _respond(answer: Answer, request: Request, serving: Serving) -> Response:
    sent = Sent(answer.id, request.url.path, len(answer.prompt), answer.max_tokens)
    serving.truth.append(sent)
    fault = serving.conduct.arrived()
    if fault is Fault.OVERLOADED:
        raise Refused(503, "ServiceUnavailableError", "The request queue is full.")
    if serving.engine.is_dead:
        raise EngineDead
    if not answer.body.stream:
        return JSONResponse(await _whole(answer, serving.engine, sent))
    short = fault is Fault.SHORT_ANSWER
    events = stream.events(answer, serving.engine, sent, short=short)
    if fault is not None:
        events = stream.spoiled(events, fault, lambda: _reset(request, serving))
    return StreamingResponse(events, media_type="text/event-stream")


async def _whole(answer: Answer, engine: LiveEngine, sent: Sent) -> dict[str, Any]:
    total = 0
    async for count in engine.generate(answer.prompt, answer.max_tokens):
        total += count
    sent.sending(total)
    sent.ended()
    return answer.whole(total)


def _reset(request: Request, serving: Serving) -> None:
    assert request.client is not None  # TCP alone is served
    serving.connections.reset((request.client.host, request.client.port))


def _error(status: int, kind: str, message: str) -> Response:
    return JSONResponse({"error": stream.error(status, kind, message)}, status_code=status)
