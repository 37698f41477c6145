"""What a decision may rest on."""

from dataclasses import dataclass, field

from advisor.advice.background import Background
from advisor.advice.confirm import Round
from advisor.terms.job import Job, Phase, Trial
from advisor.terms.measurement import Measurement, Noise
from advisor.terms.setting import Setting


@dataclass(frozen=True, slots=True)
class Case:
    """Everything a decision may rest on."""

    job: Job
    #: baseline and search, in order
    trials: tuple[Trial, ...]
    #: confirmation, in order
    rounds: tuple[Round, ...]
    #: the baseline over all rounds, judged once
    baseline_held_out: Measurement | None
    #: every launch that came to its end, those that were tried again too
    search_launches: int
    confirm_launches: int
    replays: int
    #: how far the baseline differs from itself, for each target
    noise: tuple[Noise, ...] = ()
    #: what else a reader must know, e.g. why the search ended
    notes: tuple[str, ...] = ()
    #: of all launches; None where the engine has no GPUs
    gpu_hours: float | None = None
    #: what explains the figures; no outcome rests on it
    background: Background = field(default_factory=Background)
    #: the launches behind the rounds, in order
    confirming: tuple[Trial, ...] = ()

    @property
    def baseline(self) -> Trial | None:
        return next((t for t in self.trials if t.phase is Phase.BASELINE), None)

    def searched(self, setting: Setting) -> Trial | None:
        """Its launch in the search that was measured: one is tried again after a failure."""
        tried = (t for t in self.trials if t.setting == setting)
        return next((t for t in tried if t.result.headroom is not None), None)
