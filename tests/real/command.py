"""`advisor` as a process of its own, and what its launches leave behind."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ("-P", "-c", "from advisor.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    pid: int
    code: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def advisor(home: Path, *words: str, timeout_s: float) -> Ended:
    """Run to the end; logs and database go below `home`. A command that hangs is killed."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
    }
    argv = [sys.executable, *PROGRAM, *words, "--db", f"sqlite:///{home / 'ledger.db'}"]
    with subprocess.Popen(
        argv,
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            # it then ends its server, which is in a session of its own
            process.send_signal(signal.SIGINT)
            raise
    return Ended(process.pid, process.returncode, out, err)


def launched_by(pid: int) -> list[str]:
    """What still lives of the servers that this Advisor launched: their environment names it."""
    living = []
    for process in psutil.process_iter():
        try:
            token = process.environ().get("ADVISOR_LAUNCH", "")
            if token.startswith(f"{pid}.") and process.status() != psutil.STATUS_ZOMBIE:
                living.append(f"{process.pid} {process.name()}")
        except psutil.Error:
            continue  # gone, or not ours to look at and so not of our launch
    return living
