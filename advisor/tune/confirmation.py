"""Confirmation: the leader and the baseline in turns, on fresh launches and unseen load.

One round tests one finalist on windows that nothing used before. The error allowed to the whole
job is split over the claims that could be made: one for each round, one for the baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.job import JobSpec, Objective, Phase, Trial
from advisor.terms.profile import Window, Windows
from advisor.terms.setting import Setting
from advisor.tune.attempts import answers, is_settled


@dataclass(frozen=True, slots=True)
class Step:
    """One confirming launch."""

    round: int
    repeat: int
    setting: Setting
    window: Window
    #: the job's load, and the multiple that the finalist claims to carry if that is more; for cost
    #: the baseline's is as much on each of its GPUs
    multiples: tuple[float, ...]
    #: CONTROL for the baseline's second arm
    phase: Phase = Phase.CONFIRM
    #: the finalist's last launch of the round: it has to survive a soak
    soaks: bool = False

    def is_done_by(self, trials: Sequence[Trial]) -> bool:
        """Whether one of them is its answer: launched to an end that is not to be retried."""
        return is_settled(
            [
                trial
                for trial in trials
                if trial.phase is self.phase
                and (trial.round, trial.repeat) == (self.round, self.repeat)
                and trial.setting == self.setting
            ]
        )

    @property
    def arm(self) -> str:
        """Tells the baseline's second arm from its first: they share no prompt."""
        return "" if self.phase is Phase.CONFIRM else str(self.phase)

    def most_open(self, trials: Sequence[Trial]) -> int:
        """The most requests that were open at once on its setting's launches of this round."""
        earlier = [t for t in trials if (t.phase, t.round) == (self.phase, self.round)]
        found = (t.result.most_open for t in earlier if t.setting == self.setting)
        return max((each for each in found if each is not None), default=1)


def claims(spec: JobSpec) -> int:
    """How many times this job may say "met" on held-out load."""
    return spec.rounds + 1


def claim_multiple(finalist: Trial | None, spec: JobSpec) -> float:
    """The load multiple that the search found the finalist to carry, at least the job's load."""
    if finalist is None or finalist.result.headroom is None:
        return spec.load
    return max(finalist.result.headroom.low or spec.load, spec.load)


def round_windows(windows: Windows, spec: JobSpec, round_: int) -> tuple[Window, ...]:
    """The held-out windows of one round, spread over the whole profile."""
    return windows.held_out[round_ * spec.windows : (round_ + 1) * spec.windows]


def finalist_of(round_: int, ranked: Sequence[Trial], trials: Sequence[Trial]) -> Trial | None:
    """Whom a round confirms: the best one not confirmed yet, the last one again where all were.

    Who did not survive its soak in an earlier round is not confirmed again.
    """
    dead = {
        trial.setting
        for trial in answers(trials)
        if trial.result.soak is not None
        and not trial.result.soak.survived
        and (trial.round or 0) < round_
    }
    alive = [finalist for finalist in ranked if finalist.setting not in dead]
    confirmed = round_ - (len(ranked) - len(alive))
    return alive[min(confirmed, len(alive) - 1)] if alive else None


def steps_of(
    round_: int, finalist: Trial | None, baseline: Setting, windows: Windows, spec: JobSpec
) -> list[Step]:
    """The launches of one round; who goes first alternates, so that drift hits both alike."""
    claim = claim_multiple(finalist, spec)
    ours = baseline if finalist is None else finalist.setting
    arms = [(Phase.CONFIRM, baseline)]
    if finalist is not None:
        arms.append((Phase.CONFIRM, ours))
        arms += [(Phase.CONTROL, baseline)] * spec.control_arm
    steps = []
    for repeat, window in enumerate(round_windows(windows, spec, round_)):
        for phase, setting in arms if repeat % 2 == 0 else reversed(arms):
            carried = as_good(claim, ours, setting, spec)
            multiples = tuple(sorted({spec.load, carried}))
            soaks = setting != baseline and repeat == spec.windows - 1
            steps.append(Step(round_, repeat, setting, window, multiples, phase, soaks))
    return steps


def as_good(claim: float, ours: Setting, other: Setting, spec: JobSpec) -> float:
    """The multiple that another setting would have to carry to be as good as one that carries the
    claim: for cost as much on each GPU, and at least the job's load."""
    if spec.objective is not Objective.COST or ours.gpus == other.gpus:
        return claim
    return max(spec.load, claim * other.gpus / ours.gpus)
