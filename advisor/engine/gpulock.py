"""One job on a GPU at a time: a lock file for each device, held by a living process.

The kernel's lock decides, so one of a process that died is free at once. What stands in the file
names the holder to whom comes second.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path

import psutil

from advisor.terms.errors import Blocked, InputError

#: Without a GPU a server takes the machine's cores and memory, so the machine is what is locked.
HOST = "host"


@contextmanager
def hold(devices: Sequence[str], folder: Path, what: str) -> Iterator[None]:
    """Hold every device, or the host when there is none, until the end of the block.

    `what` names the work to others, e.g. "job 1f0c9a2b". Raises Blocked that names the holder
    when another process has one of them, InputError when the folder cannot be used.
    """
    with ExitStack() as held:
        # in one order everywhere: two that want the same devices cannot wait for each other
        for name in sorted(devices) or [HOST]:
            held.enter_context(_held(name, folder, what))
        yield


@contextmanager
def _held(name: str, folder: Path, what: str) -> Iterator[None]:
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # unbuffered: what a full disk did not take must not be tried again when it is closed
        file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed below)
    except OSError as exc:
        raise _unusable(folder, exc) from exc
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sign(file, name, what)
        except BlockingIOError:
            raise Blocked(
                f"{_shown(name)} is in use by {_holder(file)}; one job at a time"
            ) from None
        except OSError as exc:
            raise _unusable(folder, exc) from exc
        try:
            yield
        finally:
            # never removed: another process may have opened it already, and would hold a lock
            # on a file that nobody else finds
            file.truncate(0)


def _unusable(folder: Path, exc: OSError) -> InputError:
    return InputError(f"data folder: cannot lock in {folder}: {exc.strerror}")


def _sign(file: FileIO, name: str, what: str) -> None:
    owner = {"pid": os.getpid(), "started_s": psutil.Process().create_time()}
    file.truncate(0)
    file.write(json.dumps({**owner, "what": what, "device": name}).encode())


def _holder(file: FileIO) -> str:
    file.seek(0)
    try:
        said = json.loads(file.read())
        return f"pid {int(said['pid'])} ({said['what']})"
    except (ValueError, KeyError, TypeError):
        return "another process"  # it holds the lock and has not signed yet


def _shown(name: str) -> str:
    return "this machine" if name == HOST else f"GPU {name}"
