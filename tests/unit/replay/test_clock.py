import socket
import sys
import time
from time import perf_counter_ns

import pytest

from advisor.replay.clock import (
    CONTROL_BYTES,
    NO_STAMP,
    STAMPS_OPTION,
    kernel_stamps,
    timespec,
    wall_offset_ns,
    was_stepped,
)

NOON_NS = 1_790_000_000_123_456_789


def test_stamps_of_the_wall_clock_become_monotonic_ones() -> None:
    stamps = kernel_stamps(timespec(NOON_NS) + timespec(NOON_NS + 7), offset_ns=NOON_NS - 100)
    assert stamps is not None
    assert stamps.tolist() == [100, 107]


def test_one_missing_stamp_makes_all_of_no_use() -> None:
    assert kernel_stamps(timespec(NOON_NS) + NO_STAMP, 0) is None


def test_no_read_has_no_stamp_and_misses_none() -> None:
    stamps = kernel_stamps(b"", 0)
    assert stamps is not None
    assert stamps.tolist() == []


def test_the_offset_joins_the_clocks() -> None:
    offset_ns = wall_offset_ns()
    before_ns = perf_counter_ns()
    wall_ns = time.time_ns()
    after_ns = perf_counter_ns()
    assert before_ns - 1_000_000 <= wall_ns - offset_ns <= after_ns + 1_000_000


@pytest.mark.parametrize(("by_ns", "stepped"), [(50_000, False), (-1_000_000, True)])
def test_a_clock_that_was_set_is_noticed(by_ns: int, stepped: bool) -> None:
    assert was_stepped(NOON_NS, NOON_NS + by_ns) is stepped


@pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")
def test_the_kernel_stamps_an_arrival_before_a_late_read() -> None:
    assert STAMPS_OPTION is not None
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, STAMPS_OPTION, 1)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            server.send(b"a")
            client.recv(9)  # the first of a system may come before stamping has begun
            time.sleep(0.02)
            sent_ns = perf_counter_ns()
            server.send(b"b")
            written_ns = perf_counter_ns()
            time.sleep(0.05)
            _, control, _, _ = client.recvmsg(9, CONTROL_BYTES)
    stamps = kernel_stamps(control[0][2], wall_offset_ns())
    assert stamps is not None
    # it has nothing of the 50 ms; how close it is depends on the two clocks' readings alone
    assert sent_ns - 1_000_000 <= stamps[0] <= written_ns + 20_000_000
