"""The `advisor` command of this tree as a process of its own, in a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: What the console script runs; the folder of the test is no part of the import path.
PROGRAM = ("-P", "-c", "from advisor.cli import main; main()")
#: Far more than any command of these tests needs; the test's own time limit comes before it.
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        found = json.loads(lines[0], parse_constant=_no_constant)
        assert isinstance(found, dict)
        return found


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


@dataclass(frozen=True, slots=True)
class Advisor:
    """Runs commands in `home`, which is also where this user's data would go."""

    home: Path
    database: str = "ledger.db"
    python: str = sys.executable
    #: where the package comes from; None when the interpreter has it installed
    package: Path | None = ROOT
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def db(self) -> Path:
        return self.home / self.database

    @property
    def url(self) -> str:
        return f"sqlite:///{self.db}"

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Leads its own session, so that a signal can be meant for it and its children alone."""
        return subprocess.Popen(
            [self.python, *PROGRAM, *words],
            cwd=self.home,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *words: str) -> Ended:
        """Run to the end; a command that takes the database is given this one."""
        process = self.start(*words)
        return finish(process)

    def on_db(self, *words: str) -> Ended:
        return self(*words, "--db", self.url)

    def _environment(self) -> dict[str, str]:
        passed = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "XDG_CACHE_HOME")
        kept = {name: os.environ[name] for name in passed if name in os.environ}
        package = {} if self.package is None else {"PYTHONPATH": str(self.package)}
        return {**kept, **package, "HOME": str(self.home), **self.environ}


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for a started command; one that hangs is killed and fails the test."""
    with process:
        try:
            out, err = process.communicate(timeout=_PATIENCE_S)
        except BaseException:
            # the test was stopped: it must not leave the command behind
            process.kill()
            raise
    return Ended(process.returncode, out, err)


def refused(ended: Ended, *named: str) -> None:
    """One line on stderr that names all of that, exit 2, nothing on stdout."""
    assert ended.code == 2, ended
    assert ended.out == "", ended
    assert ended.err.count("\n") == 1, ended
    assert ended.err.endswith("\n"), ended
    assert ended.err.startswith("advisor: "), ended
    missing = [word for word in named if word not in ended.err]
    assert not missing, ended.err
