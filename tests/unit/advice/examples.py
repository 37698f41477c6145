"""Judged measurements, trials and rounds by hand: shares as they would be, nothing simulated."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.advice.advise import Case
from advisor.advice.confirm import Arm, Round
from advisor.measure.headroom import headroom
from advisor.terms.job import (
    EngineInfo,
    Job,
    JobSpec,
    Objective,
    Phase,
    Soak,
    Trial,
    TrialResult,
)
from advisor.terms.measurement import Comparison, Judgement, Measurement, Percentiles
from advisor.terms.outcome import Failure, Reason, TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Verdict, parse_target

MET, MISSED, UNDECIDED = Verdict.MET, Verdict.MISSED, Verdict.UNDECIDED
TTFT, ERRORS = parse_target("ttft:p95<=1000ms"), parse_target("errors<=1%")
ENGINE = EngineInfo("sim", "0.1", "h100-sxm", "m", simulated=True)
SPEC = JobSpec(
    model="m",
    profile_path="p.jsonl",
    profile_sha256="ab" * 32,
    engine="sim",
    hardware=None,
    vllm_command="vllm",
    baseline="",
    space="",
    sampler="advisor",
    objective=Objective.HEADROOM,
    load=1.0,
    launches=12,
    time_budget_s=None,
    confidence=0.95,
    targets=(TTFT, ERRORS),
    accept_precision_change=False,
    seed=0,
)
SURVIVED = Soak(40)
_SHARES = {MET: (0.01, 0.004, 0.02), UNDECIDED: (0.04, 0.02, 0.09), MISSED: (0.3, 0.2, 0.4)}


def setting(seqs: int = 256, **flags: str) -> Setting:
    return Setting.of("m", {"max_num_seqs": seqs, **flags}, ("max_num_seqs",))


def judged(verdict: Verdict, target: Target = TTFT, estimate: float | None = None) -> Judgement:
    share, lower, upper = _SHARES[verdict]
    if estimate is None:
        estimate = {MET: 500.0, UNDECIDED: 900.0, MISSED: 2000.0}[verdict]
    return Judgement(
        target, verdict, estimate, estimate / 2, estimate * 2, share, lower, upper, 600, 18, 0.95
    )


def measurement(
    verdict: Verdict = MET, multiple: float = 1.0, *, estimate: float | None = None
) -> Measurement:
    percentiles = (Percentiles(Metric.TTFT, 100.0, 500.0, 900.0, 600),)
    judgements = (judged(verdict, estimate=estimate), judged(MET, ERRORS, 0.0))
    return Measurement(multiple, percentiles, judgements, 1e3, 2e3, 4.5, 0.0, 600, 3)


def trial(
    number: int,
    *points: Measurement,
    of: Setting | None = None,
    phase: Phase = Phase.SEARCH,
    failure: Failure | None = None,
) -> Trial:
    state = failure.state if failure else TrialState.MEASURED
    bracket = headroom(points) if points and state is TrialState.MEASURED else None
    result = TrialResult(state, failure, None, points, bracket)
    return Trial(number, phase, of or setting(number), "tpe", result)


def baseline(*points: Measurement, failure: Failure | None = None) -> Trial:
    return trial(0, *points, of=setting(), phase=Phase.BASELINE, failure=failure)


def broken(reason: Reason) -> Failure:
    return Failure(reason, "because", "load")


def arm(
    of: Setting,
    at_load: Measurement | None = None,
    at_claim: Measurement | None = None,
    failures: int = 0,
    *,
    cannot_run: bool = False,
    soak: Soak | None = SURVIVED,
) -> Arm:
    return Arm(of, at_load, at_claim, failures, cannot_run, soak)


def round_(
    finalist: Arm | None,
    base: Arm,
    claim: float = 1.0,
    comparisons: Sequence[Comparison] = (),
    number: int = 0,
) -> Round:
    """Whose launches all tell the same."""
    return Round(number, finalist, base, claim, tuple(comparisons), True, True)


def case(
    trials: Sequence[Trial],
    rounds: Sequence[Round] = (),
    held_out: Measurement | None = None,
    **spec: object,
) -> Case:
    changed = replace(SPEC, **spec)  # type: ignore[arg-type]
    job = Job("1f0c9a2b", changed, SPEC.targets, ENGINE, "2026-01-01T00:00:00+00:00", "open")
    return Case(job, tuple(trials), tuple(rounds), held_out, len(trials), 6, 48)
