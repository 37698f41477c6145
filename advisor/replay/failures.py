"""How the load generator, or the server under the replay, can fail."""

import errno

from advisor.terms.errors import ReplayError

#: Errors of connecting that say that this process or machine ran out, not the server.
_OUR_OWN = {
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
    errno.ENFILE: "the machine has too many open files",
    errno.EADDRNOTAVAIL: "no local port is free",
    errno.ENOBUFS: "the kernel has no buffer space",
    errno.ENOMEM: "no memory for another socket",
}


def check_our_own(exc: OSError) -> None:
    """Raises ReplayError when the failure is the load generator's own.

    It then says nothing about the server, and nothing of this replay may be scored.
    """
    if exc.errno in _OUR_OWN:
        raise ReplayError(f"cannot connect: {_OUR_OWN[exc.errno]}") from exc
