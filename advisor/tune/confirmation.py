"""Confirmation: the leader and the baseline in turns, on fresh launches and unseen load.

One round tests one finalist on windows that nothing used before. The error allowed to the whole
job is split over the claims that could be made: one for each round, one for the baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.advice.confirm import Arm, Round, time_targets
from advisor.measure.compare import compare, noise_band
from advisor.measure.looks import level
from advisor.measure.measure import measure
from advisor.terms.job import JobSpec, Phase, Trial
from advisor.terms.measurement import Comparison, Measurement, Noise
from advisor.terms.outcome import TrialState
from advisor.terms.profile import Window, Windows
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.tune.apart import apart_at
from advisor.tune.attempts import is_settled, over
from advisor.tune.ports import Scored
from advisor.tune.raised import raised


@dataclass(frozen=True, slots=True)
class Step:
    """One confirming launch."""

    round: int
    repeat: int
    setting: Setting
    window: Window
    #: the job's load, and the multiple that the finalist claims to carry if that is more
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
        for trial in _answers(trials)
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
    multiples = tuple(sorted({spec.load, claim_multiple(finalist, spec)}))
    arms = [(Phase.CONFIRM, baseline)]
    if finalist is not None:
        arms.append((Phase.CONFIRM, finalist.setting))
        arms += [(Phase.CONTROL, baseline)] * spec.control_arm
    steps = []
    for repeat, window in enumerate(round_windows(windows, spec, round_)):
        for phase, setting in arms if repeat % 2 == 0 else reversed(arms):
            soaks = setting != baseline and repeat == spec.windows - 1
            steps.append(Step(round_, repeat, setting, window, multiples, phase, soaks))
    return steps


def pooled_rounds(
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    baseline: Setting,
    targets: Sequence[Target],
    spec: JobSpec,
) -> tuple[Round, ...]:
    """What the finished rounds show, judged at the level that a claim has."""
    return tuple(
        _round(number, of_round, scored, baseline, targets, spec)
        for number, of_round in _finished(trials, spec).items()
    )


def _finished(trials: Sequence[Trial], spec: JobSpec) -> dict[int, list[Trial]]:
    """By round, the launches that count, where all have ended: half a round proves nothing."""
    rounds: dict[int, list[Trial]] = {}
    for trial in _answers(trials):
        assert trial.round is not None  # every confirming launch belongs to one
        rounds.setdefault(trial.round, []).append(trial)
    return {
        number: of_round
        for number, of_round in sorted(rounds.items())
        if len(of_round) == spec.windows * len({(t.phase, t.setting) for t in of_round})
    }


def _answers(trials: Sequence[Trial]) -> list[Trial]:
    """Of each step the launch that settles it; one that was to be tried again counts nothing."""
    steps: dict[tuple[Phase, int | None, int | None, Setting], list[Trial]] = {}
    for trial in over(trials):
        if trial.phase.is_proof:
            step = (trial.phase, trial.round, trial.repeat, trial.setting)
            steps.setdefault(step, []).append(trial)
    settled = (attempts[-1] for attempts in steps.values() if is_settled(attempts))
    return sorted(settled, key=lambda trial: trial.number)


def _round(
    number: int,
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    baseline: Setting,
    targets: Sequence[Target],
    spec: JobSpec,
) -> Round:
    theirs = _baselines(trials, baseline)
    ours = [t for t in trials if t.setting != baseline]
    again = [t for t in trials if t.phase is Phase.CONTROL]
    tried = {s.multiple for t in ours for s in scored.get(t.number, ())}
    claim = max(tried, default=spec.load)
    against = _arm(theirs, scored, claim, targets, spec, baseline)

    def held_against(arm: Sequence[Trial]) -> Round:
        return Round(
            number=number,
            finalist=_arm(arm, scored, claim, targets, spec),
            baseline=against,
            claim=claim,
            comparisons=_comparisons(arm, theirs, scored, targets, spec),
            apart_at=apart_at(arm, theirs, scored, targets, spec),
            raised=raised(arm, theirs, scored, claim, targets, spec, _two_sided(spec, 1)),
        )

    if not ours:
        return Round(number, None, against, claim, (), ())
    control = held_against(again) if again else None
    return replace(held_against(ours), control=control)


def _baselines(trials: Sequence[Trial], baseline: Setting) -> list[Trial]:
    """Without those of a control: they are the baseline's second arm."""
    return [t for t in trials if t.setting == baseline and t.phase is Phase.CONFIRM]


def _two_sided(spec: JobSpec, claimed: int) -> float:
    """The level of an interval in each round, if any of so many could be the one claimed."""
    return 2 * level(spec.confidence, claims(spec) * max(claimed, 1)) - 1


def _arm(
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    claim: float,
    targets: Sequence[Target],
    spec: JobSpec,
    setting: Setting | None = None,
) -> Arm:
    return Arm(
        setting=setting or trials[0].setting,
        at_load=pooled(trials, scored, spec.load, targets, spec),
        at_claim=None if claim == spec.load else pooled(trials, scored, claim, targets, spec),
        failures=sum(t.result.state is not TrialState.MEASURED for t in trials),
        cannot_run=all(t.result.state is TrialState.INFEASIBLE for t in trials),
        soak=next((t.result.soak for t in reversed(trials) if t.result.soak), None),
    )


def pooled(
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    multiple: float,
    targets: Sequence[Target],
    spec: JobSpec,
) -> Measurement | None:
    """All launches of one setting at one multiple, judged together.

    None when one has no replay there: fewer windows than planned cannot show how windows differ.
    """
    pool = [s.curves for t in trials for s in scored.get(t.number, ()) if s.multiple == multiple]
    if not pool or len(pool) < len(trials):
        return None
    confidence = level(spec.confidence, claims(spec))
    return measure(pool, targets, multiple, confidence, spec.calibration)


def baseline_held_out(
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    baseline: Setting,
    targets: Sequence[Target],
    spec: JobSpec,
) -> Measurement | None:
    """The baseline over the windows of all rounds at the job's load, None if it ever failed."""
    finished = _finished(trials, spec).values()
    theirs = _baselines([t for of_round in finished for t in of_round], baseline)
    if any(t.result.state is not TrialState.MEASURED for t in theirs):
        return None
    return pooled(theirs, scored, spec.load, targets, spec)


def baseline_noise(
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    baseline: Setting,
    targets: Sequence[Target],
    spec: JobSpec,
) -> tuple[Noise, ...]:
    """A/A, from the confirming launches of the baseline: one window each, at the job's load."""
    launches = [
        s.curves
        for t in _baselines(trials, baseline)
        for s in scored.get(t.number, ())
        if s.multiple == spec.load
    ]
    found = []
    for target in time_targets(targets):
        if target.percentile is not None:
            factor = noise_band(launches, target.metric, target.percentile, spec.confidence)
            if factor is not None:
                found.append(Noise(target.metric, target.percentile, factor, len(launches)))
    return tuple(found)


def _comparisons(
    ours: Sequence[Trial],
    theirs: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    targets: Sequence[Target],
    spec: JobSpec,
) -> tuple[Comparison, ...]:
    by_window = [_by_window(arm, scored, spec.load) for arm in (ours, theirs)]
    shared = sorted(by_window[0].keys() & by_window[1].keys())
    pairs = [(by_window[0][w].curves, by_window[1][w].curves) for w in shared]
    asked = time_targets(targets)
    confidence = _two_sided(spec, len(asked))
    found = (
        compare(pairs, t.metric, t.percentile, confidence)
        for t in asked
        if t.percentile is not None
    )
    return tuple(c for c in found if c is not None)


def _by_window(
    trials: Sequence[Trial], scored: Mapping[int, Sequence[Scored]], multiple: float
) -> dict[str, Scored]:
    return {
        s.window: s for t in trials for s in scored.get(t.number, ()) if s.multiple == multiple
    }
