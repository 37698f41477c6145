"""One Advisor that works on a ledger of jobs: goes on with the open one, else opens the next.

python -m tests.faults.worker FOLDER MARK

Every launch of a job has another fault, or two, or none. Exits with the code of its advice.
"""

import asyncio
import sys
from pathlib import Path

from advisor.standin.faults import Fault
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.wiring.run import run
from tests.faults.jobs import (
    ABOUT,
    Limits,
    Place,
    Quiet,
    prepared,
    space_of,
    spec_of,
    tiny,
)

#: A second here and there, since most launches of a soak are meant to fail.
SOAK_LIMITS = Limits(
    start_s=10, start_stall_s=4, stop_grace_s=1, stall_s=3, release_s=1, quiet_s=1
)
TOGETHER = ("crash,own_session", "hang,refuses_to_die", "oom_under_load,own_session")
LAUNCHES = 12


def main(folder: Path, mark: str) -> int:
    place, profile = Place(folder, mark, SOAK_LIMITS, rounds=1), tiny(rounds=1)
    with SqlLedger(place.url, owner=Owner.this_process()) as ledger:
        jobs = ledger.jobs()
        left = next((job for job in jobs if job.state == "open"), None)
        space = space_of(*Fault, *TOGETHER)
        spec = spec_of(profile, space, place.rounds, LAUNCHES, "random", seed=len(jobs))
        ready = prepared(spec if left is None else left.spec, profile, place)
        with ready.bench.hold("a soak"):
            job = ledger.open_job(spec, ABOUT) if left is None else ledger.claim(left.id)
            advice = asyncio.run(run(ready, job, ledger, Quiet()))
    return advice.outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
