"""Writes `old/REVISION.db` of the current schema; run once for each new revision.

python -m tests.migration.make_old
"""

from datetime import UTC, datetime
from pathlib import Path

from advisor.store.database import check
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import Phase
from tests.contract import examples


def main() -> None:
    url_of = "sqlite:///{}".format
    directory = Path(__file__).parent / "old"
    path = directory / f"{check(url_of(directory / 'absent.db')).expected}.db"
    if path.exists():
        raise SystemExit(f"{path} is there already; a released schema does not change")
    owner = Owner("a-host-long-gone/1", 1, 0.0)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with SqlLedger(url_of(path), owner=owner, now=lambda: moment) as ledger:
        done = ledger.open_job(examples.SPEC, examples.ENGINE).id
        first = ledger.open_trial(done, Phase.BASELINE, examples.PROPOSAL)
        ledger.add_replay(done, first, examples.replay())
        ledger.close_trial(done, first, examples.measured())
        second = ledger.open_trial(done, Phase.SEARCH, examples.PROPOSAL)
        ledger.close_trial(done, second, examples.refused())
        ledger.spend(done, ["held-out-0"])
        ledger.store_advice(done, examples.advice())
        left = ledger.open_job(examples.SPEC, examples.ENGINE).id
        ledger.open_trial(left, Phase.BASELINE, examples.PROPOSAL)


if __name__ == "__main__":
    main()
