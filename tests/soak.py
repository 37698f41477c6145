"""`make soak`: many launches of servers with faults, under an Advisor that is killed all the time.

python tests/soak.py [LAUNCHES] [SEED]

Runs jobs on the stand-in until there were so many launches (200), kills the Advisor with SIGKILL
at random moments and lets the next one go on, beside decoys that look like its servers. Two lanes
do so at once, each with a device and a ledger of its own, so that each Advisor looks for what was
left while another's servers run, and finds those of the other lane's killed ones too. Prints one
JSON object; exits 1 when a process, a port, a lock or a temporary file was left, a decoy was
touched, or a trial lost or counted twice.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.faults.bookkeeping import Row, doubled, lost, read_rows  # noqa: E402 (own path)
from tests.faults.decoys import decoys, touched  # noqa: E402
from tests.faults.jobs import Place  # noqa: E402
from tests.faults.remains import held_locks, launched, listened_on, ports  # noqa: E402

#: Advisors at work at the same time: most of a launch is waiting.
_LANES = 2
#: One Advisor in this many is let be, the others are killed.
_SPARED = 4
#: A kill comes so late at most, after the Advisor's start or (three of four) after its first
#: launch, which a busy machine delays.
_LATEST_KILL_S = 8.0
_AT_START = 0.25
_POLL_S = 0.1
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
    ports_open: int = 0
    locks_held: int = 0
    foreign_touched: int = 0
    trials_lost: int = 0
    trials_doubled: int = 0
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        wrong = (
            self.leaked_processes,
            self.leaked_files,
            self.ports_open,
            self.locks_held,
            self.foreign_touched,
            self.trials_lost,
            self.trials_doubled,
        )
        return not any(wrong)


def soak(place: Place, launches: int, seed: int) -> Figures:
    """One lane: until there were so many launches and the job under way has ended."""
    random, figures = Random(seed), Figures()
    database, before = place.folder / "ledger.db", list[Row]()
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
        _look(place, figures)
        if code == _BLOCKED:
            place.device.write_text("")  # as whoever frees a GPU does
        if enough:
            break
    figures.trials_doubled = doubled(before)
    figures.launches = _count(place)
    figures.faults = sum(_has_fault(path) for path in place.logs.glob("*.log"))
    return figures


def _look(place: Place, figures: Figures) -> None:
    """What a job that has ended left of itself, or of the killed ones before it."""
    figures.leaked_processes += len(launched(place.mark))
    figures.leaked_files += len(os.listdir(_temporary(place)))
    figures.ports_open += len(listened_on(ports(place.logs), place.mark))
    figures.locks_held += len(held_locks(place.folder))


def _sum(lanes: list[Figures]) -> Figures:
    names = [field.name for field in fields(Figures)]
    return Figures(**{name: sum(getattr(lane, name) for lane in lanes) for name in names})


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
    if random is not None and random.random() >= _AT_START:
        _until_launch(worker, place)
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


def _until_launch(worker: subprocess.Popen[str], place: Place) -> None:
    """Until it has begun one, or ended."""
    before, deadline = _count(place), time.monotonic() + _PATIENCE_S
    while _count(place) == before and worker.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)


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


def _lane(folder: Path) -> Place:
    place = Place(folder, secrets.token_hex(8))
    _temporary(place).mkdir(parents=True)
    place.device.touch()
    return place


def main(argv: list[str]) -> int:
    launches, seed = int(argv[0]) if argv else 200, int(argv[1]) if len(argv) > 1 else 1
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        decoys(Path(folder)) as others,
        ThreadPoolExecutor(_LANES) as pool,
    ):
        lanes = [_lane(Path(folder) / f"lane-{number}") for number in range(_LANES)]
        seeds = [seed * _LANES + number for number in range(_LANES)]
        counts = [-(-launches // _LANES)] * _LANES
        figures = _sum(list(pool.map(soak, lanes, counts, seeds)))
        figures.foreign_touched = touched(others)
    figures.seconds = round(time.monotonic() - began, 1)
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    return 0 if figures.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
