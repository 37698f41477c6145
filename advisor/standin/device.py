"""What a server holds on a device made of a file, which stands for a GPU where there is none.

The files are named by ADVISOR_FAKE_DEVICE; `engine.device` reads them. Each line is a JSON object:
`{"pid": P, "started_s": T, "bytes": N}` for memory that a process holds as long as it lives, as on
a real device, and `{"pid": null, "bytes": N}` for memory that nobody gives back. A line is one
write, so servers may share the file.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import psutil

VARIABLE = "ADVISOR_FAKE_DEVICE"


def visible(environ: Mapping[str, str]) -> list[Path]:
    """The files that a server may see: of several those in CUDA_VISIBLE_DEVICES, by index."""
    paths = [Path(path) for path in environ.get(VARIABLE, "").split(os.pathsep) if path]
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None or len(paths) < 2:
        return paths
    return [paths[int(word)] for word in chosen.split(",")]


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
