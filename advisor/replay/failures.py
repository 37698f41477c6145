"""How a request, or the server under the replay, can fail."""

import errno

import aiohttp

from advisor.terms.errors import ReplayError
from advisor.terms.traces import RequestStatus

#: Errors of connecting that say that this process or machine ran out, not the server.
_OUR_OWN = {
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
    errno.ENFILE: "the machine has too many open files",
    errno.EADDRNOTAVAIL: "no local port is free",
    errno.ENOBUFS: "the kernel has no buffer space",
    errno.ENOMEM: "no memory for another socket",
}


def status_of(exc: aiohttp.ClientError | OSError) -> RequestStatus:
    """The class of a failed request.

    Raises ReplayError when the failure is the load generator's own: it says nothing about the
    server, so nothing of this replay may be scored.
    """
    if isinstance(exc, aiohttp.ClientConnectorError):
        if exc.os_error.errno in _OUR_OWN:
            raise ReplayError(f"cannot connect: {_OUR_OWN[exc.os_error.errno]}") from exc
        return RequestStatus.CONNECT
    if isinstance(exc, aiohttp.ClientResponseError):
        return RequestStatus.HTTP
    return RequestStatus.RESET
