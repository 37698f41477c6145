"""One server's processes: started in a session of their own, and ended to the last descendant.

A launch is known by a token in its environment, which every descendant inherits, also one that
moved to another session or lost its parent. Processes are never looked up by name.
"""

import asyncio
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil

from advisor.terms.errors import Blocked
from advisor.terms.outcome import Failure, Reason

TOKEN_VARIABLE = "ADVISOR_LAUNCH"

#: How long the kernel gets to end a process after SIGKILL; a driver can hold one for ever.
_KILL_WAIT_S = 10.0
#: How long the children of a server that has ended get to follow it.
_CHILDREN_GRACE_S = 3.0
#: How long a resource tracker gets to clean up after the processes that were killed.
_TRACKER_GRACE_S = 1.0
_POLL_S = 0.05


def new_token() -> str:
    """`<pid>.<start of that pid>.<random>`: says which Advisor launched, and is never reused."""
    started = int(psutil.Process().create_time())
    return f"{os.getpid()}.{started}.{secrets.token_hex(8)}"


class Running(Protocol):
    """What is asked of a server that is up, whatever it runs as."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        ...

    def living(self) -> list[psutil.Process]:
        """Every process of it that is alive and can be seen from here."""
        ...


class ServerProcess:
    """The processes of one launch. `stop` may be called whether or not `start` came to its end."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self, argv: Sequence[str], variables: Mapping[str, str], log_path: Path) -> None:
        """Run `argv`, no shell, both outputs appended to `log_path`. Raises OSError."""
        env = {**variables, TOKEN_VARIABLE: self.token}
        with open(log_path, "ab") as log:
            self._popen = subprocess.Popen(
                list(argv),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the process that was started. Raises RuntimeError before `start`."""
        if self._popen is None:
            raise RuntimeError("the server was not started")
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return None if self._popen is None else self._popen.poll()

    async def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None when it still runs after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while (code := self.exit_code) is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(_POLL_S, left_s))
        return code

    def living(self) -> list[psutil.Process]:
        """Every process of this launch that is alive; a zombie is not."""
        session = None if self._popen is None else self._popen.pid
        return [
            process
            for process in processes()
            if token_of(process) == self.token or _session_of(process) == session
        ]

    def effort(self) -> tuple[float, int]:
        """Processor time in seconds and resident memory in bytes of all that live; both fall when
        one of them ends."""
        used_s, resident = 0.0, 0
        for process in self.living():
            with suppress(psutil.Error):
                times = process.cpu_times()
                used_s += times.user + times.system
                resident += process.memory_info().rss
        return used_s, resident

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, up to `grace_s` for an orderly end, then `kill`; also when cancelled.

        Raises Blocked when a process outlives SIGKILL.
        """
        try:
            if self._popen is not None and self.exit_code is None:
                self._popen.send_signal(signal.SIGTERM)
                await self.wait(grace_s)
                await self._wait_for_children(min(grace_s, _CHILDREN_GRACE_S))
        finally:
            self.kill()

    async def _wait_for_children(self, timeout_s: float) -> None:
        """They give back shared memory when they end by themselves."""
        deadline = time.monotonic() + timeout_s
        while self.living():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(_POLL_S, left_s))

    def kill(self) -> None:
        """SIGKILL all of it and see it gone. A second Ctrl-C comes through only afterwards.

        Raises Blocked when a process outlives SIGKILL.
        """
        interrupted: KeyboardInterrupt | None = None
        deadline = time.monotonic() + _KILL_WAIT_S
        while True:
            try:
                self._kill_until(deadline)
                break
            except KeyboardInterrupt as exc:
                interrupted = exc
        if interrupted is not None:
            raise interrupted

    def _kill_until(self, deadline: float) -> None:
        spare_until = time.monotonic() + _TRACKER_GRACE_S
        # a process may fork between the look and the kill: look until there is none
        while left := self.living():
            if time.monotonic() > deadline:
                pids = ", ".join(str(process.pid) for process in left)
                raise not_released(
                    f"process {pids} of the last launch outlives SIGKILL; "
                    "what it holds is not free for another trial"
                )
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    if time.monotonic() > spare_until or not _is_tracker(process):
                        process.kill()
            time.sleep(_POLL_S)
        if self._popen is not None:
            self._popen.wait(_KILL_WAIT_S)  # dead by now: this only takes it out of the table


def not_released(message: str) -> Blocked:
    """What a launch held is not free; no other one may follow."""
    failure = Failure(Reason.NOT_RELEASED, message, "stopping")
    return Blocked(f"{failure.reason}: {message}", failure)


def processes() -> Iterator[psutil.Process]:
    """Every process that is alive and can be seen."""
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                yield process


def token_of(process: psutil.Process) -> str | None:
    """None also for a process that is not ours to read, which so cannot be one of ours."""
    try:
        return process.environ().get(TOKEN_VARIABLE)
    except (psutil.Error, OSError):
        return None


def _session_of(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except OSError:
        return -1


def _is_tracker(process: psutil.Process) -> bool:
    """Python's `multiprocessing.resource_tracker` removes the shared memory that killed processes
    leave behind, and ends when the last of them is gone."""
    return "resource_tracker" in " ".join(process.cmdline())
