"""From exec to ready: a start that works in silence is told from one that stands still."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from advisor.engine.endpoint import is_healthy, tail
from advisor.engine.failures import classify
from advisor.terms.errors import EngineError, LaunchFailed
from advisor.terms.outcome import Failure, Reason

_POLL_S = 0.2
#: Effort is summed over all of a launch's processes, and folders are walked: not at every poll.
_LOOK_EVERY_S = 5.0
_CPU_STEP_S, _MEMORY_STEP_BYTES = 1.0, 16 * 1024**2


class Starting(Protocol):
    """The part of a launch's processes that a start needs."""

    @property
    def exit_code(self) -> int | None: ...

    def effort(self) -> tuple[float, int]:
        """Processor time in seconds, resident memory in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class StartLimits:
    """How long a start may take."""

    #: in all: compiling for a new shape can take half an hour
    most_s: float = 1800.0
    #: without any progress
    stall_s: float = 600.0


async def until_ready(
    session: aiohttp.ClientSession,
    base_url: str,
    process: Starting,
    log_path: Path,
    limits: StartLimits,
    grows: Sequence[Path],
) -> None:
    """Wait until `/health` answers. `grows` are folders in which a silent start may be writing.

    Raises LaunchFailed: `start_stalled`, `start_too_slow`, or why the server ended; EngineError
    when the log cannot be read.
    """
    deadline = time.monotonic() + limits.most_s
    progress = Progress(process, log_path, grows)
    while (code := process.exit_code) is None:
        if await is_healthy(session, base_url):
            return
        if time.monotonic() > deadline:
            message = f"not ready {limits.most_s:g} s after its start"
            raise _never_ready(Reason.START_TOO_SLOW, message, log_path)
        if progress.idle_s(limits.stall_s) > limits.stall_s:
            message = f"not ready, and idle for {limits.stall_s:g} s"
            raise _never_ready(Reason.START_STALLED, message, log_path)
        await asyncio.sleep(_POLL_S)
    raise LaunchFailed(classify(tail(log_path), code))


@dataclass(slots=True)
class _Seen:
    log_bytes: int = 0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    folder_bytes: int = 0


class Progress:
    """Looks for signs of work: the log, processor time, memory, folders that grow."""

    def __init__(self, process: Starting, log_path: Path, grows: Sequence[Path]) -> None:
        self._process = process
        self._log_path = log_path
        self._grows = grows
        self._seen = _Seen(folder_bytes=-1)
        self._looked_at = self._moved_at = time.monotonic()

    def idle_s(self, stall_s: float) -> float:
        """For how long nothing has moved; looked at now and then, more often for a short limit."""
        now = time.monotonic()
        if now - self._looked_at >= min(_LOOK_EVERY_S, stall_s / 4):
            self._looked_at = now
            if self._has_moved():
                self._moved_at = now
        return now - self._moved_at

    def _has_moved(self) -> bool:
        seen, log_bytes = self._seen, size_of_log(self._log_path)
        cpu_s, memory = self._process.effort()
        moved = (
            log_bytes != seen.log_bytes
            or abs(cpu_s - seen.cpu_s) >= _CPU_STEP_S
            or abs(memory - seen.memory_bytes) >= _MEMORY_STEP_BYTES
        )
        if moved:
            seen.log_bytes, seen.cpu_s, seen.memory_bytes = log_bytes, cpu_s, memory
            return True
        # a download may hold hundreds of thousands of files: walked only when all else is still
        folder_bytes = sum(size_of(folder) for folder in self._grows)
        grew = seen.folder_bytes >= 0 and folder_bytes != seen.folder_bytes
        seen.folder_bytes = folder_bytes
        return grew


def size_of_log(path: Path) -> int:
    """Bytes. Raises EngineError for a log that is no longer there: nothing can be told then."""
    try:
        return path.stat().st_size
    except OSError as exc:
        raise EngineError(f"the log {path} cannot be read: {exc.strerror}") from exc


def size_of(folder: Path) -> int:
    """Bytes in all files below it, 0 where it is not there; what vanishes is left out."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def _never_ready(reason: Reason, message: str, log_path: Path) -> LaunchFailed:
    return LaunchFailed(Failure(reason, message, "ready", tail(log_path, lines=20)))
