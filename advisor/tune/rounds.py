"""What the confirming launches show: each round's arms, pooled, judged, and compared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.advice.confirm import Arm, Round, time_targets
from advisor.measure.compare import compare, noise_band
from advisor.measure.curves import Curves
from advisor.measure.looks import level
from advisor.measure.measure import measure
from advisor.terms.job import JobSpec, Phase, Trial
from advisor.terms.measurement import Comparison, Measurement, Noise
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.tune.apart import are_apart
from advisor.tune.attempts import answers
from advisor.tune.confirmation import as_good, claims
from advisor.tune.ports import Scored
from advisor.tune.raised import raised


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
    """By round, the launches that count, where all have ended: half a round proves nothing, nor
    does one with two finalists, each on windows that the other has used."""
    rounds: dict[int, list[Trial]] = {}
    for trial in answers(trials):
        assert trial.round is not None  # every confirming launch belongs to one
        rounds.setdefault(trial.round, []).append(trial)
    return {
        number: of_round
        for number, of_round in sorted(rounds.items())
        if len(of_round) == spec.windows * len({(t.phase, t.setting) for t in of_round})
        and len({t.setting for t in of_round}) <= 2
    }


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
    carried = as_good(claim, ours[0].setting, baseline, spec) if ours else claim
    against = _arm(theirs, scored, carried, targets, spec, baseline)

    def held_against(arm: Sequence[Trial], claim: float) -> Round:
        def apart(at: float, theirs_at: float) -> bool:
            pairs = _pairs(arm, theirs, scored, at, theirs_at)
            return are_apart(pairs, targets, spec.confidence)

        return Round(
            number=number,
            finalist=_arm(arm, scored, claim, targets, spec),
            baseline=against,
            claim=claim,
            comparisons=_comparisons(arm, theirs, scored, targets, spec),
            apart_at_load=apart(spec.load, spec.load),
            apart_at_claim=apart(claim, carried),
            raised=raised(arm, theirs, scored, targets, spec, _two_sided(spec, 1)),
        )

    if not ours:
        return Round(number, None, against, claim, (), False, False)
    control = held_against(again, carried) if again else None
    return replace(held_against(ours, claim), control=control)


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
    pairs = _pairs(ours, theirs, scored, spec.load, spec.load)
    asked = time_targets(targets)
    confidence = _two_sided(spec, len(asked))
    found = (
        compare(pairs, t.metric, t.percentile, confidence)
        for t in asked
        if t.percentile is not None
    )
    return tuple(c for c in found if c is not None)


def _pairs(
    ours: Sequence[Trial],
    theirs: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    at: float,
    theirs_at: float,
) -> list[tuple[Curves, Curves]]:
    """Of the windows that both have replayed, each at its own load multiple."""
    found, others = (
        {s.window: s.curves for t in arm for s in scored.get(t.number, ()) if s.multiple == m}
        for arm, m in ((ours, at), (theirs, theirs_at))
    )
    return [(found[window], others[window]) for window in sorted(found.keys() & others.keys())]
