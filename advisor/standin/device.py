"""What a server holds on a device made of a file, which stands for a GPU where there is none.

The file is named by ADVISOR_FAKE_DEVICE; `engine.device` reads it. Each line is a JSON object:
`{"pid": P, "started_s": T, "bytes": N}` for memory that a process holds as long as it lives, as on
a real device, and `{"pid": null, "bytes": N}` for memory that nobody gives back. A line is one
write, so servers may share the file.
"""

import json
import os
from pathlib import Path

import psutil

VARIABLE = "ADVISOR_FAKE_DEVICE"


def take(device: Path, size: int) -> None:
    """Hold `size` bytes for as long as this process lives."""
    started_s = psutil.Process().create_time()
    _append(device, {"pid": os.getpid(), "started_s": started_s, "bytes": size})


def leave_taken(device: Path, size: int) -> None:
    """Hold `size` bytes for ever."""
    _append(device, {"pid": None, "bytes": size})


def _append(device: Path, line: dict[str, float | None]) -> None:
    with open(device, "ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")
