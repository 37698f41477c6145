"""`make soak`: many launches of servers with faults, under an Advisor that is killed all the time.

python tests/soak.py [LAUNCHES] [SEED]

Runs jobs on the stand-in until there were so many launches (200), kills the Advisor with SIGKILL
at random moments and lets the next one go on, beside decoys that look like its servers. Prints
one JSON object; exits 1 when a process or a temporary file was left, a decoy was touched, or a
trial lost or counted twice.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.faults.bookkeeping import doubled, lost, read_rows  # noqa: E402 (a script's own path)
from tests.faults.decoys import decoys, touched  # noqa: E402
from tests.faults.jobs import Place  # noqa: E402
from tests.faults.remains import launched  # noqa: E402

#: One Advisor in this many is let be, the others are killed.
_SPARED = 4
_LATEST_KILL_S = 8.0
#: Far more than any job takes.
_PATIENCE_S = 900.0
_BLOCKED = 6
#: Of advice, whatever it is; all else is an Advisor that broke.
_ENDS = (0, 3, 4, _BLOCKED)


@dataclass(slots=True)
class Figures:
    launches: int = 0
    #: launches that were asked to fail, misbehave or leave something
    faults: int = 0
    kills: int = 0
    jobs: int = 0
    leaked_processes: int = 0
    leaked_files: int = 0
    foreign_touched: int = 0
    trials_lost: int = 0
    trials_doubled: int = 0
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        wrong = (
            self.leaked_processes,
            self.leaked_files,
            self.foreign_touched,
            self.trials_lost,
            self.trials_doubled,
        )
        return not any(wrong)


def soak(place: Place, launches: int, seed: int, others: list[psutil.Process]) -> Figures:
    """Until there were so many launches and the job under way has ended."""
    random, figures, began = Random(seed), Figures(), time.monotonic()
    database, before = place.folder / "ledger.db", list(read_rows(place.folder / "ledger.db"))
    while True:
        enough = _count(place) >= launches
        code = _work(place, None if enough or random.randrange(_SPARED) == 0 else random)
        rows = read_rows(database)
        figures.trials_lost += lost(rows, before, place.logs)
        before = rows
        if code is None:
            figures.kills += 1
            continue
        figures.jobs += 1
        figures.leaked_processes += len(launched(place.mark))
        figures.leaked_files += len(os.listdir(_temporary(place)))
        if code == _BLOCKED:
            place.device.write_text("")  # as whoever frees a GPU does
        if enough:
            break
    figures.trials_doubled = doubled(before)
    figures.foreign_touched = touched(others)
    figures.launches = _count(place)
    figures.faults = sum(_has_fault(path) for path in place.logs.glob("*.log"))
    figures.seconds = round(time.monotonic() - began, 1)
    return figures


def _work(place: Place, random: Random | None) -> int | None:
    """One Advisor's exit code; None when it was killed, which needs `random`."""
    argv = [sys.executable, "-m", "tests.faults.worker", str(place.folder), place.mark]
    worker = subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(_temporary(place))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        limit_s = _PATIENCE_S if random is None else random.uniform(0.5, _LATEST_KILL_S)
        _, said = worker.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.communicate()
        if random is None:
            raise
        return None
    if worker.returncode not in _ENDS:
        raise RuntimeError(f"an Advisor ended with {worker.returncode}: {said[-4000:]}")
    return worker.returncode


def _temporary(place: Place) -> Path:
    """Where the Advisor and its servers put what they need for a while."""
    return place.folder / "tmp"


def _count(place: Place) -> int:
    return len(list(place.logs.glob("*.log")))


def _has_fault(log: Path) -> bool:
    """By the command line that each log begins with."""
    with open(log, encoding="utf-8", errors="replace") as lines:
        words = lines.readline().split()
    return "--sim-fault" in words and words[words.index("--sim-fault") + 1] != "none"


def main(argv: list[str]) -> int:
    launches, seed = int(argv[0]) if argv else 200, int(argv[1]) if len(argv) > 1 else 1
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        place = Place(Path(folder), secrets.token_hex(8))
        place.device.touch()
        _temporary(place).mkdir()
        with decoys(place.folder) as others:
            figures = soak(place, launches, seed, others)
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    return 0 if figures.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
