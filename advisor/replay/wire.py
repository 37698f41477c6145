"""The load on the sockets: one thread that sends on time, stamps what arrives, reads nothing.

A thread of its own and not the event loop: what else runs there (metrics, progress) would hold
up sends and stamps. A connection for each request, opened ahead of its moment: no request waits
for another's, none meets one that the server was just closing, and the end of the stream is the
end of the answer, so that not even HTTP is read while times are taken.
"""

import errno
import heapq
import selectors
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from select import select
from time import perf_counter_ns

from advisor.replay.address import Address
from advisor.replay.clock import CONTROL_BYTES, NO_STAMP, STAMP_BYTES, STAMPS_OPTION
from advisor.replay.connection import Connection
from advisor.replay.failures import check_our_own
from advisor.replay.http1 import decode_response
from advisor.replay.pacing import BEAT_NS, precedence
from advisor.replay.record import Record
from advisor.replay.turns import Turn
from advisor.replay.watch import Watch
from advisor.terms.traces import RequestStatus

#: From the start to time zero, so that a request planned for 0 is not late already.
HEAD_START_NS = 100_000_000
#: Connections are opened this long before their request: the handshake is not part of it, and
#: no server gives up on a silent connection so soon.
_CONNECT_AHEAD_NS = 80_000_000
#: Sends wait on the sockets until this long before their moment, then spin.
_SPIN_NS = 120_000
#: A connection takes a fraction of this, and is put off while a send is so near.
_CONNECT_TAKES_NS = 400_000
#: What the kernel stamps can be read a moment later, many streams in one turn; without its stamps
#: every read comes at once. Only two events of one stream within this time then share a stamp.
_REST_NS = 1_000_000
#: Everything that has arrived for a stream is taken by one call.
_READ_BYTES = 64 * 1024
#: Connections whose answer seems complete and whose server does not close are looked at so often.
_SWEEP_BEATS = 100
_SWEEP_IDLE_NS = 500_000_000
#: epoll rounds its timeout up to whole milliseconds; `select` waits microseconds, on the epoll
#: itself, and knows no descriptors from `_FD_SETSIZE` on.
_EPOLL_GRAIN_NS = 1_000_000
_FD_SETSIZE = 1024

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Wire:
    """One replay; `run` blocks in its thread, `stop` may be called from any other."""

    def __init__(
        self,
        address: Address,
        due_ns: Sequence[int],
        messages: list[bytes],
        *,
        turns: Mapping[int, Turn],
        request_timeout_s: float,
        beats_from_ns: int,
        watch: Watch,
    ) -> None:
        self.records = [Record() for _ in due_ns]
        #: how late the thread was at each beat of a 5 ms grid
        self.lags_ns: list[int] = []
        self.zero_ns = perf_counter_ns() + HEAD_START_NS
        self._address = address
        self._due_ns = due_ns
        self._turns = turns
        self._next = {turn.before: index for index, turn in turns.items()}
        self._messages = messages
        self._timeout_ns = round(request_timeout_s * 1e9)
        self._beats_from_ns = beats_from_ns
        self._beat_ns = 0
        self._beats = 0
        self._watch = watch
        #: (moment, request), soonest first
        self._sends: list[tuple[int, int]] = []
        self._connects: list[tuple[int, int]] = []
        self._waiting: dict[int, Connection] = {}
        self._open: dict[int, Connection] = {}
        self._deadlines: deque[tuple[int, Connection]] = deque()
        self._left = len(due_ns)
        self._looked_ns = 0
        #: whether the last arrival had a stamp of the kernel's
        self._stamped = False
        self._stopping = False
        self._selector, self._wake_reader, self._wake_writer = _descriptors()

    def stop(self) -> None:
        """Make `run` return soon; what is open then stays STOPPED."""
        self._stopping = True
        self._wake_writer.send(b"\0")

    def close(self) -> None:
        """After `run`: give back what `stop` needs."""
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def run(self) -> None:
        """Send everything at its moment and keep what comes until all have ended.

        Raises ReplayError when this process or machine ran out of something.
        """
        self._selector.register(self._wake_reader, _READ, None)
        try:
            with precedence():
                self._play()
        finally:
            for connection in (*self._waiting.values(), *self._open.values()):
                connection.sock.close()

    def _play(self) -> None:
        self.zero_ns = perf_counter_ns() + HEAD_START_NS
        self._beat_ns = self.zero_ns + self._beats_from_ns
        for index, due_ns in enumerate(self._due_ns):
            if index not in self._turns:
                self._plan(index, self.zero_ns + due_ns)
        while self._left and not self._stopping:
            self._keep_time()
            looked_ns = self._looked_ns
            ready = self._wait()
            self._looked_ns = perf_counter_ns()
            for key, mask in ready:
                connection = key.data
                if connection is None:
                    continue  # woken by `stop`
                if mask & _WRITE:
                    self._push(connection)
                if mask & _READ:
                    self._take(connection, looked_ns)

    def _plan(self, index: int, moment_ns: int) -> None:
        self.records[index].due_ns = moment_ns
        heapq.heappush(self._sends, (moment_ns, index))
        heapq.heappush(self._connects, (moment_ns - _CONNECT_AHEAD_NS, index))

    def _keep_time(self) -> None:
        """Do everything that is due."""
        now_ns = perf_counter_ns()
        while self._beat_ns <= now_ns:
            self.lags_ns.append(now_ns - self._beat_ns)
            self._beat_ns += BEAT_NS
            self._beats += 1
            if self._beats % _SWEEP_BEATS == 0:
                self._sweep(now_ns)
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            self._expire(self._deadlines.popleft()[1], now_ns)
        while self._sends and self._sends[0][0] <= perf_counter_ns():
            self._send(heapq.heappop(self._sends)[1])
        while self._connects and self._connects[0][0] <= perf_counter_ns():
            if self._sends and self._sends[0][0] - perf_counter_ns() < _CONNECT_TAKES_NS:
                break  # it has time, the send has none
            index = heapq.heappop(self._connects)[1]
            if self.records[index].sent_ns is None:
                self._connect(index)

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready, at the latest when something is due."""
        now_ns = perf_counter_ns()
        ahead_ns = self._beat_ns - now_ns
        if self._sends:
            ahead_ns = min(ahead_ns, self._sends[0][0] - _SPIN_NS - now_ns)
        if self._connects:
            ahead_ns = min(ahead_ns, max(self._connects[0][0] - now_ns, _CONNECT_TAKES_NS))
        if self._stamped:
            rest_ns = min(ahead_ns, self._looked_ns + _REST_NS - now_ns)
            if rest_ns > 0:
                time.sleep(rest_ns / 1e9)
                ahead_ns -= rest_ns
        if ahead_ns >= 2 * _EPOLL_GRAIN_NS:
            return self._selector.select((ahead_ns - _EPOLL_GRAIN_NS) / 1e9)
        number = self._selector.fileno()
        if ahead_ns > 0 and number < _FD_SETSIZE:
            select((number,), (), (), ahead_ns / 1e9)
        return self._selector.select(0)

    def _connect(self, index: int) -> None:
        try:
            sock = self._address.open()
            if STAMPS_OPTION is not None:
                sock.setsockopt(socket.SOL_SOCKET, STAMPS_OPTION, 1)
        except OSError as exc:
            check_our_own(exc)
            raise
        message = memoryview(self._messages[index])
        self._messages[index] = b""
        self._waiting[index] = Connection(index, sock, self.records[index], message)

    def _send(self, index: int) -> None:
        if index not in self._waiting:
            self._connect(index)  # it was put off until now
        connection = self._waiting.pop(index)
        now_ns = perf_counter_ns()
        connection.record.sent_ns = now_ns
        self._watch.opened(now_ns)
        self._open[connection.sock.fileno()] = connection
        self._selector.register(connection.sock, _READ, connection)
        self._deadlines.append((now_ns + self._timeout_ns, connection))
        self._push(connection)

    def _push(self, connection: Connection) -> None:
        """Send as much as the kernel takes; the rest when it takes more."""
        try:
            taken = connection.sock.send(connection.out)
        except BlockingIOError:
            taken = 0
        except OSError as exc:
            if not connection.stood:
                self._fail(connection, exc)
                return
            # a server that answers before it has read all closes its end: the answer still counts
            taken = len(connection.out)
        connection.stood = connection.stood or taken > 0
        connection.out = connection.out[taken:]
        writing = len(connection.out) > 0
        if writing != connection.writing:
            connection.writing = writing
            self._selector.modify(
                connection.sock, _READ | _WRITE if writing else _READ, connection
            )

    def _take(self, connection: Connection, looked_ns: int) -> None:
        record = connection.record
        if record.end_ns is not None:
            return  # it ended earlier in this pass
        try:
            read, control, _, _ = connection.sock.recvmsg(_READ_BYTES, CONTROL_BYTES)
        except BlockingIOError:
            return
        except OSError as exc:
            self._fail(connection, exc)
            return
        read_ns = perf_counter_ns()
        if not read:
            self._end(connection, RequestStatus.OK, read_ns)
            return
        stamp = control[0][2] if control else NO_STAMP
        self._stamped = len(control) > 0
        record.add(read, read_ns, looked_ns, stamp if len(stamp) == STAMP_BYTES else NO_STAMP)
        self._watch.saw(read_ns, read)

    def _fail(self, connection: Connection, exc: OSError) -> None:
        if not connection.stood:
            check_our_own(exc)
        stood = connection.stood or exc.errno in (errno.ECONNRESET, errno.EPIPE)
        status = RequestStatus.RESET if stood else RequestStatus.CONNECT
        connection.record.detail = exc.strerror or type(exc).__name__
        self._end(connection, status, perf_counter_ns())

    def _expire(self, connection: Connection, now_ns: int) -> None:
        if connection.record.end_ns is None:
            connection.record.detail = f"not done after {self._timeout_ns / 1e9:g} s"
            self._end(connection, RequestStatus.TIMEOUT, now_ns)

    def _end(self, connection: Connection, status: RequestStatus, now_ns: int) -> None:
        connection.record.status = status
        connection.record.end_ns = now_ns
        del self._open[connection.sock.fileno()]
        self._selector.unregister(connection.sock)
        connection.sock.close()
        self._left -= 1
        self._watch.closed()
        after = self._next.get(connection.index)
        if after is not None:
            self._plan(after, now_ns + self._turns[after].pause_ns)

    def _sweep(self, now_ns: int) -> None:
        """End what is complete though the server keeps the connection open."""
        for connection in list(self._open.values()):
            record = connection.record
            if not record.reads or now_ns - record.read_ns[-1] < _SWEEP_IDLE_NS:
                continue
            last_chunk = record.reads[-1].endswith(b"0\r\n\r\n")
            if (last_chunk or b"ontent-" in record.reads[0]) and (
                decode_response(record.reads, closed=False).complete
            ):
                self._end(connection, RequestStatus.OK, now_ns)


def _descriptors() -> tuple[selectors.DefaultSelector, socket.socket, socket.socket]:
    try:
        return selectors.DefaultSelector(), *socket.socketpair()
    except OSError as exc:
        check_our_own(exc)
        raise
