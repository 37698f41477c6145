"""Everything that can go wrong, as one tree.

    AdvisorError
    ├── InputError            the user's input; exit 2, HTTP 422
    │   ├── ProfileError      a recorded load that cannot be used
    │   ├── TargetError       a target that cannot be read or cannot be decided
    │   ├── SpaceError        knobs, rules or variants that make no sense
    │   └── FlagError         `vllm serve` flags that cannot be read
    ├── EngineError           a server could not be brought up or talked to; exit 2
    │   └── LaunchFailed      carries the Failure: a result of the trial, not a crash of the job
    │       └── ReplayInterrupted   under load, with what was measured until then
    ├── ReplayError           the load generator itself broke
    ├── LedgerError           the database
    │   ├── NotFound
    │   ├── LeaseLost
    │   └── SchemaMismatch    older or newer than this program
    └── Blocked               the environment allows no further trial; exit 6

A setting that cannot run is a result, not an error.
"""

from advisor.terms.outcome import Failure
from advisor.terms.traces import Traces


class AdvisorError(Exception):
    """Root of all errors that this package raises on purpose; the text is one line for a user."""


class InputError(AdvisorError):
    """What the user gave cannot be used; names the field, the value and what would be accepted."""


class ProfileError(InputError):
    """A recorded load that cannot be read or used."""


class TargetError(InputError):
    """A target that cannot be read, or that the profile is too short to decide."""


class SpaceError(InputError):
    """A Space whose knobs, rules or variants make no sense."""


class FlagError(InputError):
    """`vllm serve` flags that cannot be read."""


class EngineError(AdvisorError):
    """A server could not be brought up, or could not be talked to."""


class LaunchFailed(EngineError):
    """A launch did not become a serving endpoint, or stopped being one; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


class ReplayInterrupted(LaunchFailed):
    """The server died or hung under the load; `traces` has what was measured until then."""

    def __init__(self, failure: Failure, traces: Traces) -> None:
        super().__init__(failure)
        self.traces = traces


class ReplayError(AdvisorError):
    """The load generator itself broke; nothing it saw may be scored."""


class LedgerError(AdvisorError):
    """The database could not be read or written."""


class NotFound(LedgerError):
    """No such row."""


class LeaseLost(LedgerError):
    """Another process owns this job now."""


class SchemaMismatch(LedgerError):
    """The database's schema is older or newer than this program's."""


class Blocked(AdvisorError):
    """The environment allows no further trial; `failure` is the trial's, where one met it."""

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure
