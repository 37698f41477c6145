"""One connection with its one request."""

import socket
from dataclasses import dataclass

from advisor.replay.record import Record


@dataclass(slots=True)
class Connection:
    """Open or on its way; everything that is kept beyond its end is in the record."""

    index: int
    sock: socket.socket
    record: Record
    #: what is still to be sent
    out: memoryview
    writing: bool = False
    #: some of it was taken, so the connection stood
    stood: bool = False
