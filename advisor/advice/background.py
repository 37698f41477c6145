"""What explains the figures of a job, beside the figures themselves."""

from dataclasses import dataclass

from advisor.terms.flags import FlagValue
from advisor.terms.job import ServerFacts
from advisor.terms.setting import Setting

#: Each ordered knob of two values or more, with its values in ascending order.
Ranges = tuple[tuple[str, tuple[FlagValue, ...]], ...]


@dataclass(frozen=True, slots=True)
class Served:
    """One scored replay, as its server counted it."""

    setting: Setting
    window: str
    multiple: float
    #: over the whole replay, lead-in included, or up to its early stop
    facts: ServerFacts
    #: False where an early stop kept part of the load from being played
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Background:
    """The servers' own facts, and how far the Space reaches."""

    #: of the search and of the confirmation, in the order played
    served: tuple[Served, ...] = ()
    #: of the Space, where that is known
    ranges: Ranges = ()

    def of(self, setting: Setting, multiple: float) -> list[Served]:
        """The replays of one setting at one load multiple."""
        return [
            each for each in self.served if (each.setting, each.multiple) == (setting, multiple)
        ]
