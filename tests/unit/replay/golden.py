"""A server that says exactly what a script tells it to, and remembers when it said it."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

DONE = b"data: [DONE]\n\n"
APIS = ("completions", "chat/completions")
#: Long enough for two writes to arrive as two reads on most machines; nothing relies on it.
PAUSE_S = 0.003


def chunk(
    tokens: int, *, cumulative: int | None = None, ids: bool = True, prompt: int = 0
) -> bytes:
    """One completion event that carries `tokens` tokens, its text longer than ASCII."""
    choice: dict[str, Any] = {"index": 0, "text": "é✓" * tokens, "finish_reason": None}
    if ids:
        choice["token_ids"] = list(range(200, 200 + tokens))
    body: dict[str, Any] = {"object": "text_completion", "choices": [choice]}
    if cumulative is not None:
        body["usage"] = {"prompt_tokens": prompt, "completion_tokens": cumulative}
    return event(body)


def usage(prompt: int, completion: int) -> bytes:
    return event({"choices": [], "usage": usage_fields(prompt, completion)})


def usage_fields(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def event(body: object) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


@dataclass
class Exchange:
    """One request as the server sees it."""

    body: dict[str, Any]
    writer: asyncio.StreamWriter
    arrived_ns: int
    #: whether the client asked for the end of the connection after the answer
    closes: bool
    #: when each write of body bytes was handed to the socket
    sent_ns: list[int] = field(default_factory=list)

    @property
    def prompt(self) -> list[int]:
        """Of a chat, what a tokenizer could make of it: a token a word, three of the template."""
        if "messages" in self.body:
            return [0] * (3 + len(self.body["messages"][0]["content"].split()))
        return list(self.body["prompt"])

    async def start(self, status: str = "200 OK", length: int | None = None) -> None:
        how = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\n{how}\r\n\r\n"
        self.writer.write(head.encode())
        await self.writer.drain()

    async def write(self, data: bytes) -> None:
        """One HTTP chunk, on the wire before this returns, then a moment of silence."""
        self.sent_ns.append(perf_counter_ns())
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()
        await asyncio.sleep(PAUSE_S)

    async def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def answer(self) -> None:
        """What a server in order does: one token per event, usage, [DONE]."""
        await self.start()
        count = self.body["max_tokens"]
        for number in range(1, count + 1):
            await self.write(chunk(1, cumulative=number, prompt=len(self.prompt)))
        await self.write(usage(len(self.prompt), count) + DONE)
        await self.end()

    def reset(self) -> None:
        """A TCP reset, as a dying process gives."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class Golden:
    """Scripts by prompt length; `Exchange.answer` where there is none."""

    scripts: Mapping[int, Script]
    exchanges: dict[int, Exchange] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    url: str = ""
    #: of the URL, before `/v1`
    path: str = ""
    #: wakes whoever waits for a request to arrive
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for(self, prompt_length: int) -> None:
        async with self.arrived:
            await self.arrived.wait_for(lambda: prompt_length in self.exchanges)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                exchange = await self._receive(reader, writer)
                await self.scripts.get(len(exchange.prompt), Exchange.answer)(exchange)
                if exchange.closes or writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the client went away, as scripted
        finally:
            writer.close()

    async def _receive(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Exchange:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        posts = (f"POST {self.path}/v1/{api} HTTP/1.1\r\n" for api in APIS)
        assert head.startswith(tuple(posts))
        lines = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
        body = json.loads(await reader.readexactly(int(lines["content-length"])))
        exchange = Exchange(body, writer, perf_counter_ns(), lines.get("connection") == "close")
        async with self.arrived:
            self.exchanges[len(exchange.prompt)] = exchange
            self.order.append(len(exchange.prompt))
            self.arrived.notify_all()
        return exchange


@asynccontextmanager
async def golden(
    scripts: Mapping[int, Script] | None = None, path: str = ""
) -> AsyncIterator[Golden]:
    """A golden server on a free loopback port; its connections end with it."""
    served = Golden(scripts or {}, path=path)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(served.serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [o for o in outcomes if isinstance(o, Exception)]
        assert broken == []
