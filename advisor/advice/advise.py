"""From the trials of a job to its advice."""

import math
from dataclasses import dataclass

from advisor.advice.choose import candidates, diff, finalists, is_eligible
from advisor.advice.confirm import Round, gain, meets
from advisor.advice.explain import (
    error_limit_line,
    evidence_lines,
    failures_line,
    noise_line,
    precision_line,
    rehearsal_line,
    stopped_line,
)
from advisor.measure.headroom import worst_excess
from advisor.terms.advice import Advice, AdviceOutcome, Evidence
from advisor.terms.job import Job, Phase, Trial
from advisor.terms.measurement import Headroom, Measurement, Noise
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict


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

    @property
    def baseline(self) -> Trial | None:
        return next((t for t in self.trials if t.phase is Phase.BASELINE), None)


def advise(case: Case) -> Advice:
    """Decide, in the order of what is strongest: recommended, keep, none meets, not proven."""
    for round_ in case.rounds:
        why = gain(round_)
        if why is not None and round_.finalist is not None:
            return _recommended(case, round_, why)
    if meets(case.baseline_held_out):
        return _keep_current(case)
    if _all_missed(case):
        return _none_meets(case)
    return _not_proven(case)


def blocked(case: Case, why: str) -> Advice:
    """The environment allowed no further trial."""
    return _advice(case, AdviceOutcome.BLOCKED, None, [why])


def _recommended(case: Case, round_: Round, why: str) -> Advice:
    assert round_.finalist is not None  # gain() is only claimed for one
    setting = round_.finalist.setting
    found = _headroom(case, setting)
    choice = Evidence(setting, round_.finalist.at_load, found, confirmed=True)
    reasons = [
        f"Confirmed on {_windows(round_)} held-out windows, each on a fresh launch: {why}",
        *evidence_lines(choice.measurement, round_.baseline.at_load),
    ]
    if case.baseline is not None and setting.precision() != case.baseline.setting.precision():
        reasons.append(
            "Precision of weights or KV cache changes (accepted by --accept-precision-change): "
            "the answers may change; check their quality before the rollout"
        )
    return _advice(case, AdviceOutcome.RECOMMENDED, choice, reasons, round_.baseline.at_load)


def _headroom(case: Case, setting: Setting) -> Headroom | None:
    """Of the launch that was measured: a setting is tried again after a transient failure."""
    tried = (t.result.headroom for t in case.trials if t.setting == setting)
    return next((headroom for headroom in tried if headroom is not None), None)


def _windows(round_: Round) -> int:
    at_load = round_.finalist.at_load if round_.finalist else None
    return at_load.replays if at_load else 0


def _keep_current(case: Case) -> Advice:
    baseline = case.baseline
    assert baseline is not None  # it was measured on held-out load
    tried = {round_.finalist.setting for round_ in case.rounds if round_.finalist is not None}
    why = (
        f"No gain over the current setting is proven for {_count(len(tried), 'finalist')}"
        if tried
        else "No setting tried carries more load within the targets than the current one"
    )
    choice = Evidence(
        baseline.setting, case.baseline_held_out, baseline.result.headroom, confirmed=True
    )
    reasons = [
        f"{why}; the current setting is proven to meet the targets on held-out load",
        *evidence_lines(case.baseline_held_out, None),
    ]
    return _advice(case, AdviceOutcome.KEEP_CURRENT, choice, reasons)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _answered(case: Case) -> list[Trial]:
    """What may be advised and ran to an answer; a failure that is ours is none."""
    answers = (TrialState.MEASURED, TrialState.INFEASIBLE)
    return [t for t in case.trials if t.result.state in answers and _eligible(case, t)]


def _all_missed(case: Case) -> bool:
    """Every setting with an answer cannot run, or provably misses a target at the job's load."""
    answered = _answered(case)
    # a setting that runs but has no verdict could still be the one that meets
    return bool(answered) and all(_missed(trial, case.job.spec.load) for trial in answered)


def _missed(trial: Trial, load: float) -> bool:
    if trial.result.state is TrialState.INFEASIBLE:
        return True
    measurement = trial.result.at(load)
    return measurement is not None and measurement.verdict is Verdict.MISSED


def _eligible(case: Case, trial: Trial) -> bool:
    if case.baseline is None:
        return True
    accept = case.job.spec.accept_precision_change
    return is_eligible(trial.setting, case.baseline.setting, accept)


def _nearest(case: Case) -> Trial | None:
    """By headroom; where that was not looked for, or is below all that was tried, by the miss."""
    measured = [t for t in case.trials if t.result.headroom is not None and _eligible(case, t)]
    return max(measured, key=lambda t: _nearness(t, case.job.spec.load), default=None)


def _nearness(trial: Trial, load: float) -> tuple[float, float]:
    headroom, at_load = trial.result.headroom, trial.result.at(load)
    return (
        headroom.estimate if headroom else 0.0,
        -worst_excess(at_load) if at_load else -math.inf,
    )


def _none_meets(case: Case) -> Advice:
    load = case.job.spec.load
    nearest = _nearest(case)
    ran = [t for t in _answered(case) if t.result.state is TrialState.MEASURED]
    why = f"Each setting that ran ({len(ran)}) provably misses a target at {load:g}x the load"
    reasons = [why if ran else "No setting tried can run here"]
    choice = None
    if nearest is not None:
        choice = Evidence(
            nearest.setting, nearest.result.at(load), nearest.result.headroom, confirmed=False
        )
        reasons.append(
            f"Nearest is trial {nearest.number}: its headroom is {nearest.result.headroom} times "
            "the recorded load"
        )
        reasons += evidence_lines(choice.measurement, _baseline_at_load(case))
    return _advice(case, AdviceOutcome.NONE_MEETS, choice, reasons)


def _not_proven(case: Case) -> Advice:
    load = case.job.spec.load
    leader = _leader(case)
    round_ = _best_round(case)
    if round_ is not None and round_.finalist is not None:
        measurement, confirmed = round_.finalist.at_load, True
        why = "meets the targets on held-out load, but is not proven better than the current one"
        if not meets(measurement):
            why = "is not proven to meet the targets on held-out load"
        setting = round_.finalist.setting
        reasons = [f"The best setting found {why}; a longer profile would give more windows"]
    elif case.baseline is not None and case.baseline_held_out is not None:
        # nothing could gain, so the held-out load went to the current setting alone
        setting, measurement, confirmed = case.baseline.setting, case.baseline_held_out, True
        reasons = [
            "The current setting is not proven to meet the targets on held-out load; a longer "
            "profile would give more windows"
        ]
    elif leader is not None:
        setting, measurement, confirmed = leader.setting, leader.result.at(load), False
        reasons = ["No setting is proven to meet the targets; a longer profile would settle more"]
    else:
        reasons = ["No setting that may be advised has an answer, so nothing is proven"]
        return _advice(case, AdviceOutcome.NOT_PROVEN, None, reasons)
    choice = Evidence(setting, measurement, _headroom(case, setting), confirmed)
    if round_ is not None:
        held_out = round_.baseline.at_load
        reasons += evidence_lines(measurement, held_out)
        return _advice(case, AdviceOutcome.NOT_PROVEN, choice, reasons, held_out)
    beside = _baseline_at_load(case) if setting != _baseline_setting(case) else None
    reasons += evidence_lines(measurement, beside)
    return _advice(case, AdviceOutcome.NOT_PROVEN, choice, reasons)


def _best_round(case: Case) -> Round | None:
    """The first whose finalist is proven to meet, else the last that had one."""
    last = None
    for round_ in case.rounds:
        if round_.finalist is not None:
            if meets(round_.finalist.at_load):
                return round_
            last = round_
    return last


def _leader(case: Case) -> Trial | None:
    spec = case.job.spec
    ranked = finalists(case.trials, spec, case.baseline)
    if not ranked and case.trials:
        reference = (case.baseline or case.trials[0]).setting
        ranked = candidates(case.trials, spec, reference)
    return ranked[0] if ranked else None


def _baseline_setting(case: Case) -> Setting | None:
    return case.baseline.setting if case.baseline else None


def _baseline_at_load(case: Case) -> Measurement | None:
    return case.baseline.result.at(case.job.spec.load) if case.baseline else None


def _judged(case: Case) -> bool:
    """Whether any verdict was given: without one there is no bound to speak of."""
    return any(trial.result.measurements for trial in case.trials)


def _level(choice: Evidence | None, confidence: float) -> float:
    """That the shown judgements were taken at."""
    judged = choice.measurement.judgements if choice and choice.measurement else ()
    return max((judgement.confidence for judgement in judged), default=confidence)


def _advice(
    case: Case,
    outcome: AdviceOutcome,
    choice: Evidence | None,
    reasons: list[str],
    baseline_held_out: Measurement | None = None,
) -> Advice:
    """`baseline_held_out` is of the round that decided; without one, of all rounds."""
    trial = case.baseline
    held_out = baseline_held_out or case.baseline_held_out
    baseline = None
    if trial is not None:
        measurement = held_out or _baseline_at_load(case)
        confirmed = held_out is not None
        baseline = Evidence(trial.setting, measurement, trial.result.headroom, confirmed)
    spec = case.job.spec
    judged = outcome is not AdviceOutcome.BLOCKED and _judged(case)
    more = (
        noise_line(case.noise),
        precision_line(case.trials, spec, trial),
        failures_line(case.trials),
        stopped_line(case.trials) if judged else None,
        error_limit_line(case.job.targets),
        rehearsal_line(case.job, _level(choice, spec.confidence)) if judged else None,
    )
    return Advice(
        outcome=outcome,
        choice=choice,
        baseline=baseline,
        diff=diff(choice.setting, trial.setting) if choice and trial else (),
        reasons=(*reasons, *case.notes, *(line for line in more if line)),
        search_launches=case.search_launches,
        confirm_launches=case.confirm_launches,
        replays=case.replays,
        confidence=spec.confidence,
        engine=case.job.engine,
        profile_sha256=spec.profile_sha256,
        gpu_hours=case.gpu_hours,
    )
