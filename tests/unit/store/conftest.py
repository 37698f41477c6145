"""A ledger in a fresh file, with a clock that moves only when told."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner

#: (owner, lease_s, busy_timeout_ms), each with a default
Open = Callable[..., SqlLedger]


class Clock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_s(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="url")
def _url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(name="open_ledger")
def _open_ledger(url: str, clock: Clock) -> Iterator[Open]:
    opened: list[SqlLedger] = []

    def open_ledger(
        owner: Owner | None = None, lease_s: float = 30, busy_timeout_ms: int = 10_000
    ) -> SqlLedger:
        ledger = SqlLedger(
            url,
            owner=owner or Owner.this_process(),
            lease_s=lease_s,
            busy_timeout_ms=busy_timeout_ms,
            now=clock,
        )
        opened.append(ledger)
        return ledger

    yield open_ledger
    for ledger in opened:
        ledger.close()
