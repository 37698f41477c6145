"""How often a question may be asked of the data, and what each answer must then be worth."""

from dataclasses import dataclass

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
        """One-sided level of every single look."""
        return level(self.confidence, self.looks * self.claims)
