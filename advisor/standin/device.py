"""A device made of a file: memory that servers take, give back, or leave taken.

The file is named by ADVISOR_FAKE_DEVICE. Its lines are JSON objects: first
`{"total_bytes": N}`, then `{"pid": P, "started_s": T, "bytes": N}` for each process that took
memory, and `{"pid": null, "bytes": N}` for memory that no process gives back. A process holds its
memory as long as it lives, as on a real device; one line is one write, so servers may share it.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

VARIABLE = "ADVISOR_FAKE_DEVICE"
#: `create_time` is boot time plus ticks, and the boot time is known to the second only.
_SAME_START_S = 2.0


@dataclass(frozen=True, slots=True)
class FakeDevice:
    """One device; every question is answered from the file as it is now."""

    path: Path

    @classmethod
    def create(cls, path: Path, total_bytes: int) -> "FakeDevice":
        """An empty one in place of what was there."""
        path.write_text(json.dumps({"total_bytes": total_bytes}) + "\n")
        return cls(path)

    @property
    def total_bytes(self) -> int:
        return int(self._lines()[0]["total_bytes"])

    @property
    def used_bytes(self) -> int:
        """Of living processes, and of none."""
        return sum(line["bytes"] for line in self._lines()[1:] if _holds(line))

    def take(self, size: int) -> None:
        """Hold memory for as long as this process lives."""
        started_s = psutil.Process().create_time()
        self._append({"pid": os.getpid(), "started_s": started_s, "bytes": size})

    def leave_taken(self, size: int) -> None:
        """Hold memory for ever."""
        self._append({"pid": None, "bytes": size})

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def _append(self, line: dict[str, Any]) -> None:
        with open(self.path, "ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")


def _holds(line: dict[str, Any]) -> bool:
    if line["pid"] is None:
        return True
    try:
        process = psutil.Process(line["pid"])
        same = abs(process.create_time() - line["started_s"]) < _SAME_START_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
