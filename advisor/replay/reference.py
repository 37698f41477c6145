"""A server that streams at planned moments and says when it wrote each event.

`python -m advisor.replay.reference REQUESTS PACE_NS` prints its port, answers that many requests
with one token per event and PACE_NS between events, prints the stamps of each by the length of
its prompt as JSON, and ends. What it saw is the truth that this machine's client is held against.
"""

import heapq
import json
import selectors
import socket
import sys
from time import perf_counter_ns

#: As long as vLLM's own, so that a read costs what it costs there.
_EVENT = (
    b'data: {"id":"cmpl-5d1b34f0c8f64b7e9c1f6f0b2a7f1c9d","object":"text_completion",'
    b'"created":1790000000,"model":"none","choices":[{"index":0,"text":" word","logprobs":null,'
    b'"finish_reason":null,"stop_reason":null,"token_ids":[1000]}],"usage":null}\n\n'
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_DONE = b"data: [DONE]\n\n"


class _Stream:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.asked = b""
        self.prompt_tokens = 0
        self.tokens = 0
        self.written_ns: list[int] = []

    def is_whole(self) -> bool:
        """Whether the request has arrived; reads what it asks for."""
        head, end, body = self.asked.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length):
            return False
        asked = json.loads(body)
        self.prompt_tokens, self.tokens = len(asked["prompt"]), asked["max_tokens"]
        return True

    def write(self) -> bool:
        """One event; whether it was the last."""
        self.written_ns.append(perf_counter_ns())
        self.sock.sendall(_EVENT)
        if len(self.written_ns) < self.tokens:
            return False
        self.sock.sendall(_DONE)
        self.sock.close()
        return True


def serve(requests: int, pace_ns: int) -> dict[int, list[int]]:
    """Stamps (perf_counter ns) of every event by prompt length, once all are answered."""
    written: dict[int, list[int]] = {}
    due: list[tuple[int, int, _Stream]] = []
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        print_line(str(listener.getsockname()[1]))
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ, None)
        while len(written) < requests:
            while due and due[0][0] <= perf_counter_ns():
                moment_ns, number, stream = heapq.heappop(due)
                if stream.write():
                    written[stream.prompt_tokens] = stream.written_ns
                else:
                    heapq.heappush(due, (moment_ns + pace_ns, number, stream))
            ahead_ns = due[0][0] - perf_counter_ns() if due else 1_000_000_000
            for key, _ in selector.select(max(0, ahead_ns - 500_000) / 1e9):
                whole = _arrived(selector, listener, key.data)
                if whole is not None:
                    heapq.heappush(due, (perf_counter_ns() + pace_ns, id(whole), whole))
    return written


def _arrived(
    selector: selectors.BaseSelector, listener: socket.socket, stream: _Stream | None
) -> _Stream | None:
    """The stream whose request is whole now."""
    if stream is None:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(sock, selectors.EVENT_READ, _Stream(sock))
        return None
    read = stream.sock.recv(65536)
    stream.asked += read
    if read and not stream.is_whole():
        return None
    selector.unregister(stream.sock)
    if not read:
        stream.sock.close()
        return None
    stream.sock.sendall(_HEAD)
    return stream


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    print_line(json.dumps(serve(int(sys.argv[1]), int(sys.argv[2]))))
