"""Who works on a job, from its row and from what can be seen of that process."""

from datetime import datetime

from advisor.store.owner import Owner
from advisor.store.rows import OPEN
from advisor.store.schema import JobRow
from advisor.store.stamp import parse_stamp
from advisor.terms.errors import LeaseLost


def refuse_held(row: JobRow, us: Owner, now: datetime) -> None:
    """Raises LeaseLost that names a process that works on the job, or may do so elsewhere."""
    if row.owner is None or row.lease_until is None or row.owner == us.text:
        return
    owner = Owner.parse(row.owner)
    alive = owner.is_alive()
    if alive:
        raise LeaseLost(f"job {row.id} is being worked on by {owner}; end that process first")
    if alive is None and now < parse_stamp(row.lease_until):
        raise LeaseLost(f"job {row.id} is leased to {owner} until {row.lease_until}")


def is_abandoned(row: JobRow) -> bool:
    """Whether the job is open and nobody works on it.

    Of a process on another host nothing is said, whatever its lease: it renews it when it writes,
    and one replay may take longer than a lease lasts.
    """
    if row.state != OPEN:
        return False
    return row.owner is None or Owner.parse(row.owner).is_alive() is False
