"""What a killed Advisor left behind: its servers and their folders, and nothing else.

A process is ours when its environment carries a launch token, and left over when the process that
made the token is gone. Names play no part.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from advisor.engine.process import ServerProcess, processes, token_of
from advisor.terms.errors import EngineError

#: A start time is boot time plus ticks, and the boot time is known to the second only.
_SAME_START_S = 2.0
#: In each launch's folder: the pid namespace in which its token's pid has its meaning.
_NAMESPACE = ".pid-namespace"
_TOKEN = re.compile(r"(?P<pid>\d+)\.(?P<started>\d+)\.[0-9a-f]+")
_FOLDER = "advisor-"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What was found and ended."""

    #: pids, and the launch token of each
    processes: tuple[tuple[int, str], ...] = ()
    folders: tuple[Path, ...] = ()

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(token for _, token in self.processes)

    def __bool__(self) -> bool:
        return bool(self.processes or self.folders)


def find_leftovers() -> Leftovers:
    """Look, and touch nothing."""
    found = tuple(
        (process.pid, token)
        for process in processes()
        if (token := token_of(process)) is not None
        and _namespace(process.pid) == _namespace("self")
        and not owner_lives(token)
    )
    return Leftovers(found, tuple(_left_folders()))


def end_leftovers() -> Leftovers:
    """End all of them, processes first. Raises Blocked when a process outlives SIGKILL."""
    found = find_leftovers()
    for token in found.tokens:
        ServerProcess(token).kill()
    for folder in found.folders:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def owner_lives(token: str) -> bool:
    """Whether the process that made the token still runs; a token that is none has no owner here
    that could be known, and is left alone."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return True
    try:
        owner = psutil.Process(int(match["pid"]))
        same = abs(owner.create_time() - int(match["started"])) <= _SAME_START_S
        return same and owner.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def launch_folder(token: str) -> Iterator[Path]:
    """Where a launch puts its temporary files, until the end of the block.

    vLLM leaves sockets and directories in TMPDIR when it is killed. The path is short, since that
    of a socket may have 107 bytes. Raises EngineError when it cannot be made.
    """
    path = Path(tempfile.gettempdir()) / f"{_FOLDER}{token}"
    try:
        path.mkdir(mode=0o700)
        (path / _NAMESPACE).write_text(_namespace("self"))
    except OSError as exc:
        raise EngineError(f"{path} cannot be made for temporary files: {exc.strerror}") from exc
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _left_folders() -> Iterator[Path]:
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*.*.*"):
        token = path.name.removeprefix(_FOLDER)
        if not _TOKEN.fullmatch(token) or owner_lives(token):
            continue
        try:
            ours = path.lstat().st_uid == os.getuid() and not path.is_symlink()
            if ours and (path / _NAMESPACE).read_text() == _namespace("self"):
                yield path
        except OSError:
            continue  # gone meanwhile, or not made by a launch


def _namespace(process: object) -> str:
    """Where a pid has its meaning: containers number anew. Empty where that is not known."""
    try:
        return os.readlink(f"/proc/{process}/ns/pid")
    except OSError:
        return ""
