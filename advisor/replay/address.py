"""Where requests go: an endpoint's URL, and the socket address behind it."""

import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from advisor.terms.errors import InputError

_CONNECT_S = 2.0


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint that was looked up once, so that no request waits for a name."""

    #: for the Host field, with the port
    host: str
    #: prefix of every path, without a slash at its end
    prefix: str
    family: int
    #: as `socket.connect` takes it
    sockaddr: Any

    def open(self) -> socket.socket:
        """A socket on its way to the server; nothing waits. Raises OSError."""
        sock = socket.socket(self.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex(self.sockaddr)  # its outcome shows at the first send
        return sock


def resolve(endpoint_url: str) -> Address:
    """Look up an `http://HOST:PORT[/PREFIX]`. Raises InputError when it cannot be used.

    Of several addresses (localhost: ::1 and 127.0.0.1) the first that answers is taken.
    """
    parts = urlsplit(endpoint_url)
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port:
        raise InputError(f"endpoint {endpoint_url!r}: expected http://HOST:PORT")
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise InputError(f"endpoint {endpoint_url!r}: cannot be looked up: {exc}") from exc
    places = [(family, sockaddr) for family, _, _, _, sockaddr in found]
    family, sockaddr = places[0]
    if len(places) > 1:
        family, sockaddr = next((place for place in places if _answers(*place)), places[0])
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    host = f"{name}:{port}".encode("idna" if not name.isascii() else "ascii").decode()
    return Address(host, parts.path.rstrip("/"), family, sockaddr)


def _answers(family: int, sockaddr: Any) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(_CONNECT_S)
            sock.connect(sockaddr)
    except OSError:
        return False
    return True
