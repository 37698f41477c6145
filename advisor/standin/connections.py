"""The open connections of a server, so that one can be reset: no ASGI application can do that."""

import asyncio
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

Address = tuple[str, int]
#: SO_LINGER on, for no time at all: closing then sends RST instead of FIN.
_NO_LINGER = struct.pack("ii", 1, 0)


class Connections:
    """Knows every connection by its client's address."""

    def __init__(self) -> None:
        self._open: dict[Address, asyncio.Transport] = {}

    def reset(self, client: Address) -> None:
        """Break the connection off; what was not sent yet is lost."""
        transport = self._open[client]
        held: socket.socket = transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()

    def protocol(self) -> type[H11Protocol]:
        """uvicorn's HTTP protocol, for `uvicorn.Config(http=…)`, that tells of connections."""
        opened = self._open

        class Noted(H11Protocol):
            def connection_made(  # type: ignore[override]
                self, transport: asyncio.Transport
            ) -> None:
                super().connection_made(transport)
                if self.client is not None:
                    opened[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.client is not None:
                    opened.pop(self.client, None)

        return Noted
