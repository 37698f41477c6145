"""The reference server: written in C, so that it is far faster than any client of it here."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SOURCE = Path(__file__).with_name("server.c")
#: However slow the client, a run is over by then.
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One request as the server saw it; CLOCK_MONOTONIC, which perf_counter is on Linux."""

    #: token ids in its prompt, 0 for a text
    prompt_ids: int
    arrived_ns: int
    #: int64[tokens], right before each write
    written_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """What a run asks of the server: every stream on its own absolute grid."""

    #: requests in all
    streams: int
    tokens: int
    pace_s: float
    first_s: float = 0.02
    #: every so many gaps one is longer, by `stall_s`; 0: none
    stall_every: int = 0
    stall_s: float = 0.0

    @property
    def events_per_s(self) -> float:
        return self.streams / self.pace_s


@dataclass(slots=True)
class Server:
    process: "subprocess.Popen[str]"
    url: str
    ends_when_told: bool

    def alive(self) -> bool:
        return self.process.poll() is None

    def answers(self) -> list[Answer]:
        """In the order in which they ended; waits for the last, where the server knows which."""
        if self.ends_when_told:
            self.process.terminate()
        text, _ = self.process.communicate(timeout=_PATIENCE_S)
        rows = [np.array(line.split(), dtype=np.int64) for line in text.splitlines()]
        return [Answer(int(row[0]), int(row[1]), row[2:]) for row in rows]


@contextmanager
def reference_server(load: Load, *, ends_when_told: bool = False) -> Iterator[Server]:
    """A fresh process for one run; told to end where a client may send more than its load."""
    with tempfile.TemporaryDirectory() as folder:
        binary = _built(Path(folder))
        numbers = (0 if ends_when_told else load.streams, *map(_ns, (load.first_s, load.pace_s)))
        stalls = (load.stall_every, _ns(load.stall_s))
        command = [str(binary), *map(str, (*numbers, *stalls))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            try:
                yield Server(process, f"http://127.0.0.1:{port}", ends_when_told)
            finally:
                process.kill()


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _built(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit(f"no C compiler (cc, gcc, clang) is there to build {_SOURCE.name} with")
    binary = folder / "server"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(_SOURCE)], check=True)
    return binary
