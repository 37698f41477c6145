"""The recommendation with its evidence."""

from dataclasses import dataclass
from enum import StrEnum

from advisor.terms.job import EngineInfo
from advisor.terms.measurement import Headroom, Measurement
from advisor.terms.setting import Setting


class AdviceOutcome(StrEnum):
    RECOMMENDED = "recommended"
    KEEP_CURRENT = "keep_current"
    NOT_PROVEN = "not_proven"
    NONE_MEETS = "none_meets"
    BLOCKED = "blocked"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {
    AdviceOutcome.RECOMMENDED: 0,
    AdviceOutcome.KEEP_CURRENT: 0,
    AdviceOutcome.NONE_MEETS: 3,
    AdviceOutcome.NOT_PROVEN: 4,
    AdviceOutcome.BLOCKED: 6,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a million tokens take, prompts and answers together, at the load a setting carries."""

    gpus: int
    #: the load multiple that it is proven to carry
    multiple: float
    gpu_hours_per_mtok: float
    #: in the currency of the price per GPU-hour; None without one
    money_per_mtok: float | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One setting with what was measured of it."""

    setting: Setting
    #: confirmation on held-out load where there is one, else the search's at the job's load
    measurement: Measurement | None
    headroom: Headroom | None
    #: True when the measurement is from held-out load
    confirmed: bool
    #: None where it was not asked for, or where no load is proven to be carried
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, and why a person may trust it."""

    outcome: AdviceOutcome
    #: the setting advised, or the nearest one when none meets
    choice: Evidence | None
    baseline: Evidence | None
    #: "--flag old -> new" for each difference between choice and baseline
    diff: tuple[str, ...]
    reasons: tuple[str, ...]
    search_launches: int
    confirm_launches: int
    replays: int
    confidence: float
    engine: EngineInfo
    profile_sha256: str
    #: of all launches, interrupted ones too; None where the engine has no GPUs
    gpu_hours: float | None = None
