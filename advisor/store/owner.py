"""Who works on a job: one process, told apart from a later one with the same pid."""

import os
import platform
import sys
from dataclasses import dataclass

import psutil

#: A start time is boot time plus ticks, and the boot time is known to the second only.
_SAME_START_S = 2.0


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a host."""

    #: where the pid has its meaning: the host's name, on Linux with the pid namespace,
    #: since containers on the host's network share its name and not its pids
    host: str
    pid: int
    #: Unix time in seconds (`psutil.Process.create_time`)
    started_s: float

    @classmethod
    def this_process(cls) -> "Owner":
        return cls(_this_host(), os.getpid(), psutil.Process().create_time())

    @classmethod
    def parse(cls, text: str) -> "Owner":
        """Read `text` back. Raises ValueError for anything else."""
        host, pid, started_s = text.rsplit(" ", 2)
        return cls(host, int(pid), float(started_s))

    @property
    def text(self) -> str:
        """As it stands in the database."""
        return f"{self.host} {self.pid} {self.started_s!r}"

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host.split('/')[0]}"

    def is_alive(self) -> bool | None:
        """Whether that very process still runs; None when it is on a host we cannot look at."""
        if self.host != _this_host():
            return None
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_s) < _SAME_START_S
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def _this_host() -> str:
    name = platform.node() or "localhost"
    if sys.platform != "linux":
        return name
    try:
        return f"{name}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return name
