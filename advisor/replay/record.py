"""What is kept of one request while the load runs: stamps and bytes, nothing interpreted."""

from array import array
from dataclasses import dataclass, field, replace

from advisor.replay.clock import NO_STAMP, STAMP_BYTES
from advisor.terms.traces import RequestStatus


def _stamps() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class Record:
    """One request; stamps are perf_counter nanoseconds unless they say otherwise."""

    #: when it is to be sent; known from the start unless it waits for another's end
    due_ns: int | None = None
    #: when the client was ready to send it, not before its planned moment
    sent_ns: int | None = None
    #: when the server closed or the request failed
    end_ns: int | None = None
    #: how the exchange ended, before the answer was read
    status: RequestStatus = RequestStatus.STOPPED
    #: what the failure said
    detail: str = ""
    #: what each call of recv returned
    reads: list[bytes] = field(default_factory=list)
    #: when it returned
    read_ns: "array[int]" = field(default_factory=_stamps)
    #: when the sockets had been looked at before: what the call returned arrived after this
    looked_ns: "array[int]" = field(default_factory=_stamps)
    #: a `struct timespec` of the wall clock per read: when its last segment arrived
    kernel: bytearray = field(default_factory=bytearray)

    def add(self, read: bytes, read_ns: int, looked_ns: int, kernel: bytes = NO_STAMP) -> None:
        """Keep one read."""
        self.reads.append(read)
        self.read_ns.append(read_ns)
        self.looked_ns.append(looked_ns)
        self.kernel += kernel

    def so_far(self) -> "Record":
        """A copy that another thread may read while this one goes on."""
        # in this order: what has an end gets no more reads, and `kernel` is added to last
        end_ns = self.end_ns
        reads = len(self.kernel) // STAMP_BYTES
        return replace(
            self,
            end_ns=end_ns,
            status=RequestStatus.STOPPED if end_ns is None else self.status,
            reads=self.reads[:reads],
            read_ns=self.read_ns[:reads],
            looked_ns=self.looked_ns[:reads],
            kernel=self.kernel[: reads * STAMP_BYTES],
        )
