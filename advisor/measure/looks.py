"""How often a question may be asked of the data, and what each answer must then be worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: More looks make each one so strict that a longer replay is the better use of the time.
MOST_LOOKS = 4


def level(confidence: float, claims: int) -> float:
    """One-sided level of each of several claims, so that all hold together at `confidence`.

    An equal split of the error (Bonferroni): 0.95 over 2 claims is 0.975 each. Raises ValueError
    for a confidence outside 0.5..1 or no claim.
    """
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence {confidence} must be above 0.5 and below 1")
    if claims < 1:
        raise ValueError(f"claims {claims} must be at least 1")
    return 1 - (1 - confidence) / claims


@dataclass(frozen=True, slots=True)
class Looks:
    """Planned before the first replay and written on the job; never raised afterwards."""

    #: that no claim of the job is wrong, 0.5..1
    confidence: float
    #: times each question may be looked at: once, or again after "undecided, measure longer"
    looks: int = 1
    #: questions that share the error budget, such as the finalists of a confirmation
    claims: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.looks <= MOST_LOOKS:
            raise ValueError(f"looks {self.looks} must be from 1 to {MOST_LOOKS}")
        level(self.confidence, self.claims)

    @property
    def level(self) -> float:
        """One-sided level of every single look, when each adds as much load as the first."""
        return level(self.confidence, self.looks * self.claims)

    def levels(self, windows: Sequence[int]) -> tuple[float, ...]:
        """One-sided level of each look, given how many windows each will have seen in all.

        The error is spent as the windows come in (alpha spending, Lan and DeMets, Biometrika 70,
        1983, with a spending function that is proportional to the share of the load seen): a look
        gets the part that its new windows are of all. That the looks share their earlier windows
        would allow a little more; not using it keeps the sum right whatever the dependence.
        Raises ValueError unless there is one number for each look, rising from above 0.
        """
        seen = [0, *windows]
        if len(windows) != self.looks or any(b <= a for a, b in pairwise(seen)):
            raise ValueError(
                f"windows {list(windows)} must be {self.looks} rising numbers above 0"
            )
        error = 1 - level(self.confidence, self.claims)
        steps = (b - a for a, b in pairwise(seen))
        return tuple(1 - error * step / windows[-1] for step in steps)
