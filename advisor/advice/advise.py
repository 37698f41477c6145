"""From the trials of a job to its advice."""

from advisor.advice.case import Case as Case
from advisor.advice.choose import candidates, diff, finalists
from advisor.advice.confirm import Round, control_gain, died, gain, meets
from advisor.advice.cost import cost_of
from advisor.advice.explain import (
    error_limit_line,
    evidence_lines,
    failures_line,
    noise_line,
    precision_line,
    rehearsal_line,
    stopped_line,
)
from advisor.advice.explanation import explain
from advisor.advice.memory import memory_line
from advisor.advice.proof import (
    control_line,
    died_lines,
    drop_line,
    more_load_line,
    more_proof_line,
    survived_line,
    why_open,
)
from advisor.advice.unmet import all_missed, answered, nearest, would_meet_line
from advisor.terms.advice import Advice, AdviceOutcome, Cost, Evidence
from advisor.terms.job import Objective, Trial
from advisor.terms.measurement import Headroom, Measurement
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting


def advise(case: Case) -> Advice:
    """Decide, in the order of what is strongest: recommended, keep, none meets, not proven."""
    noise = control_gain(case.rounds)
    if noise is not None:
        return _not_proven(case, f"The control arm, the current setting again, gains: {noise}")
    for round_ in case.rounds:
        why = gain(round_)
        if (
            why is not None
            and round_.finalist is not None
            and not died(case.rounds, round_.finalist)
        ):
            return _recommended(case, round_, why)
    if meets(case.baseline_held_out):
        return _keep_current(case)
    if all_missed(case):
        return _none_meets(case)
    return _not_proven(case)


def blocked(case: Case, why: str) -> Advice:
    """The environment allowed no further trial."""
    return _advice(case, AdviceOutcome.BLOCKED, None, [why])


def _recommended(case: Case, round_: Round, why: str) -> Advice:
    assert round_.finalist is not None  # gain() is only claimed for one
    finalist, setting = round_.finalist, round_.finalist.setting
    cost = cost_of(setting, (finalist.at_load, finalist.at_claim), case.job.spec)
    found = _headroom(case, setting)
    choice = Evidence(setting, finalist.at_load, found, confirmed=True, cost=cost)
    reasons = [
        f"Confirmed on {_windows(round_)} held-out windows, each on a fresh launch: {why}",
        *evidence_lines(choice.measurement, round_.baseline.at_load),
    ]
    more = (
        survived_line(finalist.soak) if finalist.soak else None,
        drop_line(case.searched(setting), round_),
        memory_line(setting, (*case.trials, *case.confirming)),
    )
    reasons += [line for line in more if line]
    if case.baseline is not None and setting.precision() != case.baseline.setting.precision():
        reasons.append(
            "Precision of weights or KV cache changes (accepted by --accept-precision-change): "
            "the answers may change; check their quality before the rollout"
        )
    return _advice(case, AdviceOutcome.RECOMMENDED, choice, reasons, round_.baseline.at_load)


def _headroom(case: Case, setting: Setting) -> Headroom | None:
    found = case.searched(setting)
    return None if found is None else found.result.headroom


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
        else f"No setting tried is better than the current one by {case.job.spec.objective}"
        if case.job.spec.objective is not Objective.HEADROOM
        else "No setting tried carries more load within the targets than the current one"
    )
    choice = Evidence(
        baseline.setting,
        case.baseline_held_out,
        baseline.result.headroom,
        confirmed=True,
        cost=_cost_of_baseline(case),
    )
    reasons = [
        f"{why}; the current setting is proven to meet the targets on held-out load",
        *evidence_lines(case.baseline_held_out, None),
    ]
    return _advice(case, AdviceOutcome.KEEP_CURRENT, choice, reasons)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _none_meets(case: Case) -> Advice:
    load = case.job.spec.load
    closest = nearest(case)
    ran = [t for t in answered(case) if t.result.state is TrialState.MEASURED]
    why = f"Each setting that ran ({len(ran)}) provably misses a target at {load:g}x the load"
    reasons = [why if ran else "No setting tried can run here"]
    choice = None
    if closest is not None:
        choice = _evidence(case, closest.setting, closest.result.at(load), confirmed=False)
        reasons.append(
            f"Nearest is trial {closest.number}: its headroom is {closest.result.headroom} times "
            "the recorded load"
        )
        reasons += evidence_lines(choice.measurement, _baseline_at_load(case))
        reasons += [line for line in (would_meet_line(closest, load),) if line]
    return _advice(case, AdviceOutcome.NONE_MEETS, choice, reasons)


def _not_proven(case: Case, first: str | None = None) -> Advice:
    """`first`: what forbids any other answer, before what was found all the same."""
    round_ = _best_round(case)
    found = _best_found(case, round_)
    if found is None:
        why = "No setting that may be advised has an answer, so nothing is proven"
        return _advice(case, AdviceOutcome.NOT_PROVEN, None, [why])
    choice, why = found
    setting, measurement = choice.setting, choice.measurement
    reasons = [line for line in (first, why) if line]
    if round_ is not None:
        held_out = round_.baseline.at_load
        drop = drop_line(case.searched(setting), round_)
        more = [line for line in (drop, more_proof_line(round_)) if line]
        reasons += [*evidence_lines(measurement, held_out), *more]
        return _advice(case, AdviceOutcome.NOT_PROVEN, choice, reasons, held_out)
    beside = _baseline_at_load(case) if setting != _baseline_setting(case) else None
    settles = more_load_line(measurement)
    reasons += [*evidence_lines(measurement, beside), *([settles] if settles else [])]
    return _advice(case, AdviceOutcome.NOT_PROVEN, choice, reasons)


def _best_found(case: Case, round_: Round | None) -> tuple[Evidence, str] | None:
    """What came nearest to a proof, and why it is none."""
    if round_ is not None and round_.finalist is not None:
        arm = round_.finalist
        why = f"The best setting found {why_open(case.rounds, round_, arm)}"
        return _evidence(case, arm.setting, arm.at_load, confirmed=True), why
    if case.baseline is not None and case.baseline_held_out is not None:
        # nothing could gain, so the held-out load went to the current setting alone
        why = (
            "The current setting is not proven to meet the targets on held-out load; a longer "
            "profile would give more windows"
        )
        held_out = case.baseline_held_out
        return _evidence(case, case.baseline.setting, held_out, confirmed=True), why
    leader = _leader(case)
    if leader is None:
        return None
    at_load = leader.result.at(case.job.spec.load)
    why = "No setting is proven to meet the targets; a longer profile would settle more"
    return _evidence(case, leader.setting, at_load, confirmed=False), why


def _best_round(case: Case) -> Round | None:
    """The first whose finalist is proven to meet and survived, or was not soaked; then the first
    whose one meets all the same, then the last that had one."""
    had = [(each, each.finalist) for each in case.rounds if each.finalist is not None]
    meeting = [(each, arm) for each, arm in had if meets(arm.at_load)]
    alive = [each for each, arm in meeting if not died(case.rounds, arm)]
    ranked = [*alive, *(each for each, _ in meeting), *(each for each, _ in reversed(had))]
    return next(iter(ranked), None)


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


def _evidence(
    case: Case, setting: Setting, measurement: Measurement | None, *, confirmed: bool
) -> Evidence:
    cost = _cost(case, setting, measurement)
    return Evidence(setting, measurement, _headroom(case, setting), confirmed, cost)


def _cost(case: Case, setting: Setting, *held_out: Measurement | None) -> Cost | None:
    """At the highest load that held-out windows or the search prove it to carry."""
    trial = case.searched(setting)
    headroom = None if trial is None else trial.result.headroom
    if trial is not None and headroom is not None and headroom.low is not None:
        held_out = (*held_out, trial.result.at(headroom.low))
    return cost_of(setting, held_out, case.job.spec)


def _cost_of_baseline(case: Case) -> Cost | None:
    if case.baseline is None:
        return None
    claimed = (each.baseline.at_claim for each in case.rounds)
    return _cost(case, case.baseline.setting, case.baseline_held_out, *claimed)


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
        bracket, cost = trial.result.headroom, _cost_of_baseline(case)
        baseline = Evidence(trial.setting, measurement, bracket, confirmed, cost)
    spec = case.job.spec
    judged = outcome is not AdviceOutcome.BLOCKED and _judged(case)
    more = (
        *died_lines(case.rounds),
        control_line(case.rounds),
        noise_line(case.noise),
        precision_line(case.trials, spec, trial),
        failures_line(case.trials),
        stopped_line(case.trials) if judged else None,
        error_limit_line(case.job.targets),
        rehearsal_line(case.job, _level(choice, spec.confidence)) if judged else None,
    )
    setting = choice.setting if choice else None
    why = explain(case.job, case.trials, case.noise, case.background, outcome, setting).reasons
    return Advice(
        outcome=outcome,
        choice=choice,
        baseline=baseline,
        diff=diff(choice.setting, trial.setting) if choice and trial else (),
        reasons=(*reasons, *case.notes, *why, *(line for line in more if line)),
        search_launches=case.search_launches,
        confirm_launches=case.confirm_launches,
        replays=case.replays,
        confidence=spec.confidence,
        engine=case.job.engine,
        profile_sha256=spec.profile_sha256,
        gpu_hours=case.gpu_hours,
    )
