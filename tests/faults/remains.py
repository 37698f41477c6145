"""What a launch may leave behind: nothing but its log and its rows."""

import fcntl
import os
import re
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

from advisor.engine.process import TOKEN_VARIABLE
from tests.faults.jobs import MARK

_PORT = re.compile(r"^# .* --port (\d+)", re.MULTILINE)


def launched(mark: str) -> list[psutil.Process]:
    """Living processes that carry a launch's token and this test's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            environ = process.environ()
            alive = process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        except (psutil.Error, OSError):
            continue
        if alive and environ.get(MARK) == mark and TOKEN_VARIABLE in environ:
            found.append(process)
    return found


def ports(logs: Path) -> list[int]:
    """Of all launches, as the heads of their logs tell."""
    texts = (path.read_text(errors="replace") for path in sorted(logs.glob("*.log")))
    return [int(port) for text in texts for port in _PORT.findall(text)]


def taken(numbers: Iterable[int]) -> list[int]:
    """Those ports that somebody listens on."""
    found = []
    for number in numbers:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                found.append(number)
    return found


def listened_on(numbers: Iterable[int], mark: str) -> list[int]:
    """Those ports that a server listens on.

    A client that got one later does not count, nor a server under another mark: the system gives
    a port that was let go to whoever asks next.
    """
    listening = {
        each.laddr.port
        for each in psutil.net_connections(kind="tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr and not _is_others(each.pid, mark)
    }
    return sorted(listening & set(numbers))


def _is_others(pid: int | None, mark: str) -> bool:
    """Whether a process is known to carry another test's mark."""
    try:
        return pid is not None and psutil.Process(pid).environ().get(MARK, mark) != mark
    except (psutil.Error, OSError):
        return False


def held_locks(folder: Path) -> list[Path]:
    """Lock files below a folder that a process holds."""
    found = []
    for path in folder.rglob("*.lock"):
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(path)
    return found


def temporary() -> list[str]:
    """Advisor's own temporary files and folders of this process."""
    named = re.compile(rf"advisor-{os.getpid()}\.")
    return [name for name in os.listdir(tempfile.gettempdir()) if named.match(name)]


def assert_nothing_remains(folder: Path, mark: str) -> None:
    assert launched(mark) == []
    assert taken(ports(folder / "logs")) == []
    assert held_locks(folder) == []
    assert temporary() == []
