"""From the ledger's rows to the case that advice is given on, now or for other targets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.advice.advise import Case
from advisor.advice.background import Background, Ranges, Served
from advisor.advice.choose import candidates, effective
from advisor.measure.headroom import headroom
from advisor.measure.measure import measure
from advisor.terms.job import Job, JobSpec, Objective, Phase, Trial
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.tune.attempts import over
from advisor.tune.budget import gpu_hours
from advisor.tune.ports import Scored
from advisor.tune.rounds import baseline_held_out, baseline_noise, pooled_rounds


def baseline_of(trials: Sequence[Trial]) -> Trial | None:
    """The baseline's last launch with every knob explicit, None before one has ended."""
    ended = [trial for trial in over(trials) if trial.phase is Phase.BASELINE]
    return replace(ended[-1], setting=effective(ended[-1])) if ended else None


def searched(trials: Sequence[Trial]) -> list[Trial]:
    """The baseline and the search's trials, in order."""
    baseline = baseline_of(trials)
    found = [trial for trial in over(trials) if trial.phase is Phase.SEARCH]
    return found if baseline is None else [baseline, *found]


def to_beat(trials: Sequence[Trial], spec: JobSpec, setting: Setting) -> float | None:
    """The load multiple that this setting has to carry to be confirmed: more than the baseline,
    and than the last of as many settings as are, for cost on each GPU; None while any may be."""
    baseline = baseline_of(trials)
    if baseline is None:
        return None
    on_gpus = setting.gpus if spec.objective is Objective.COST else 1

    def as_much(trial: Trial) -> float | None:
        low = None if trial.result.headroom is None else trial.result.headroom.low
        theirs = trial.setting.gpus if spec.objective is Objective.COST else 1
        return None if low is None else low * on_gpus / theirs

    carried = [as_much(trial) for trial in candidates(searched(trials), spec, baseline.setting)]
    last = sorted((each for each in carried if each is not None), reverse=True)[spec.rounds - 1 :]
    least = [each for each in (as_much(baseline), *last[:1]) if each is not None]
    return max(least, default=None)


def case_of(
    job: Job,
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    notes: Sequence[str] = (),
    ranges: Ranges = (),
) -> Case:
    """Everything that a decision may rest on, and what explains it."""
    ended, baseline = over(trials), baseline_of(trials)
    confirming = [trial for trial in ended if trial.phase.is_proof]
    return Case(
        job=job,
        trials=tuple(searched(trials)),
        rounds=()
        if baseline is None
        else pooled_rounds(confirming, scored, baseline.setting, job.targets, job.spec),
        baseline_held_out=None
        if baseline is None
        else baseline_held_out(confirming, scored, baseline.setting, job.targets, job.spec),
        noise=()
        if baseline is None
        else baseline_noise(confirming, scored, baseline.setting, job.targets, job.spec),
        search_launches=len(ended) - len(confirming),
        confirm_launches=len(confirming),
        replays=sum(trial.replays for trial in ended),
        confirming=tuple(confirming),
        notes=tuple(notes),
        gpu_hours=gpu_hours(trials, job.spec, job.engine.gpus),
        background=Background(_served(ended, scored), ranges),
    )


def _served(trials: Sequence[Trial], scored: Mapping[int, Sequence[Scored]]) -> tuple[Served, ...]:
    """Settings with every knob explicit, as those of the case. Not what was measured beside loaded
    neighbours, or as a control: it is to be set beside what was measured alone, once a window."""
    return tuple(
        Served(setting, each.window, each.multiple, each.facts, not each.curves.stopped)
        for trial in trials
        if trial.phase not in (Phase.NEIGHBOURS, Phase.CONTROL)
        for setting in [effective(trial) if trial.phase is Phase.BASELINE else trial.setting]
        for each in scored.get(trial.number, ())
    )


def judged_again(
    job: Job,
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    targets: Sequence[Target],
) -> tuple[Job, list[Trial]]:
    """The same replays held against other targets; nothing is launched."""
    asked = replace(job, targets=tuple(targets))
    return asked, [
        _again(trial, scored.get(trial.number, ()), targets, job.spec) for trial in trials
    ]


def _again(
    trial: Trial, scored: Sequence[Scored], targets: Sequence[Target], spec: JobSpec
) -> Trial:
    if trial.result.state is not TrialState.MEASURED:
        return trial
    multiples = sorted({replay.multiple for replay in scored})
    pools = {m: [s.curves for s in scored if s.multiple == m] for m in multiples}
    # a multiple that a void replay cut short has fewer windows than the others
    whole = max(map(len, pools.values()), default=0)
    points = tuple(
        measure(pools[m], targets, m, spec.confidence, spec.calibration, spec.windows)
        for m in multiples
        if len(pools[m]) == whole or any(replay.stopped for replay in pools[m])
    )
    bracketed = headroom(points) if points else None
    return replace(trial, result=replace(trial.result, measurements=points, headroom=bracketed))
