"""How the simulator says that a setting does not start."""

from advisor.terms.errors import LaunchFailed
from advisor.terms.outcome import Failure, Reason


def refused(
    reason: Reason, stage: str, message: str, shortfall: float | None = None
) -> LaunchFailed:
    """The error to raise; `shortfall` is needed / available - 1 where both are known."""
    return LaunchFailed(Failure(reason, message, stage, excerpt=message, shortfall=shortfall))
