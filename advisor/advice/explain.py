"""Sentences that a person can check against the numbers."""

from collections.abc import Sequence

from advisor.measure.judge import margin_for
from advisor.terms.calibration import Calibration
from advisor.terms.job import Job, JobSpec, Trial
from advisor.terms.measurement import Judgement, Measurement, Noise
from advisor.terms.outcome import TrialState
from advisor.terms.target import Metric, Target, Verdict

_SAMPLES = {
    Metric.TTFT: "requests",
    Metric.ITL: "gaps",
    Metric.TOKEN_ITL: "tokens",
    Metric.TPOT: "requests",
    Metric.E2E: "requests",
    Metric.ERRORS: "requests",
}


#: A limit that is judged as less than this part of itself is worth a word.
MOVED = 0.99


def error_limit_line(targets: Sequence[Target]) -> str | None:
    """Says when the default error limit is below what the profile could ever prove."""
    target = next((t for t in targets if t.metric is Metric.ERRORS and t.asked), None)
    if target is None:
        return None
    return (
        f"{target.asked} cannot be proven with a profile of this length; failures are judged at "
        f"{target}, the least that it can prove"
    )


def percent(share: float) -> str:
    """0.004 -> `0.4 %`, with as many digits as it takes to see a small share."""
    value = 100 * share
    return f"{value:.2g} %" if 0 < value < 10 else f"{value:.1f} %" if value else "0 %"


def targets_line(judgement: Judgement, baseline: Judgement | None) -> str:
    """One target with its evidence, the baseline beside it."""
    target = judgement.target
    name = target.metric.upper() if target.percentile else "Errors"
    at = f" p{target.percentile:g}" if target.percentile else ""
    if judgement.share_over is None or judgement.share_over_upper is None:
        return f"{name}{at}: no samples, so nothing is proven"
    things = _SAMPLES[target.metric]
    over = (
        f"of {things} failed"
        if target.metric is Metric.ERRORS
        else (f"of {things} over {target.limit:g} {target.unit}")
    )
    # the bound that decides: from below for a miss, from above for anything else
    with_confidence = f"with {100 * judgement.confidence:.3g} % confidence"
    bound = f"at most {percent(judgement.share_over_upper)} {with_confidence}"
    if judgement.share_over_upper >= 1:
        bound = "at most how many is not known"
    if judgement.verdict is Verdict.MISSED and judgement.share_over_lower is not None:
        bound = f"at least {percent(judgement.share_over_lower)} {with_confidence}"
    line = (
        f"{name}{at} {judgement.verdict}: {percent(judgement.share_over)} {over}, {bound}, "
        f"{percent(target.allowed_share)} allowed"
    )
    if baseline is not None and baseline.share_over is not None:
        line += f"; baseline {percent(baseline.share_over)}"
    return line


def evidence_lines(ours: Measurement | None, baseline: Measurement | None) -> list[str]:
    """A line for every target."""
    if ours is None:
        return []
    theirs = {} if baseline is None else {j.target: j for j in baseline.judgements}
    return [targets_line(j, theirs.get(j.target)) for j in ours.judgements]


def precision_line(trials: Sequence[Trial], spec: JobSpec, baseline: Trial | None) -> str | None:
    """Says when a setting in other precision was faster but may not be advised."""
    if spec.accept_precision_change or baseline is None:
        return None
    others = [
        trial
        for trial in trials
        if trial.result.state is TrialState.MEASURED
        and trial.setting.precision() != baseline.setting.precision()
        and trial.result.headroom is not None
    ]
    if not others:
        return None
    best = max(others, key=lambda t: t.result.headroom.estimate if t.result.headroom else 0.0)
    many = "1 trial changes" if len(others) == 1 else f"{len(others)} trials change"
    return (
        f"Not eligible: {many} the precision of weights or KV cache, and so "
        f"the answers (best: trial {best.number}, headroom {best.result.headroom}). "
        "--accept-precision-change lets them be advised; check their quality first."
    )


def rehearsal_line(job: Job, confidence: float) -> str:
    """What the bounds were found to hold, and what that costs each limit at this level."""
    calibration = job.spec.calibration
    if calibration is None:
        return (
            "Bounds are at their nominal level: the simulator does not know this model on this "
            "hardware, so they could not be rehearsed; near saturation, and where bursts are "
            "rare, they may be too narrow"
        )
    lines = [_moved(t, confidence, calibration) for t in job.targets if not t.is_relative]
    needs = ", ".join(line for line in lines if line) or "no limit had to be tightened"
    return (
        f"Bounds were rehearsed on {calibration.windows} simulated windows of this profile at "
        f"each of several loads, {calibration.model} on {calibration.hardware}: {needs}"
    )


def _moved(target: Target, confidence: float, calibration: Calibration) -> str | None:
    """What a target needs beside its limit, None where the limit is enough."""
    if target.metric is Metric.ERRORS or target.percentile is None:
        return None
    name = f"{target.metric.upper()} p{target.percentile:g}"
    rehearsed = calibration.harder(target.metric, target.percentile)
    if rehearsed is None:
        return f"{name} was not, so it cannot be met here, only in a job that has it as a target"
    if rehearsed != target.percentile:
        return f"{name} was not, so it is met only where p{rehearsed:g} is"
    margin = margin_for(target, confidence, calibration)
    judged_ms, limit_ms = margin.tight.at(target.limit_ns) / 1e6, target.limit_ns / 1e6
    if judged_ms == 0:
        return f"{name} cannot be met on windows this short"
    if judged_ms < MOVED * limit_ms:
        return f"to be met, {name} must be shown within {judged_ms:.4g} ms"
    return None


def noise_line(noise: Sequence[Noise]) -> str | None:
    """What a difference has to be larger than."""
    if not noise:
        return None
    listed = ", ".join(
        f"{n.metric.upper()} p{n.percentile:g} {1 / n.factor:.2f} to {n.factor:.2f} times"
        for n in noise
    )
    return (
        f"Noise band of this job: {noise[0].launches} launches of the current setting against "
        f"{noise[0].launches} others of it would show {listed}"
    )


def stopped_line(trials: Sequence[Trial]) -> str | None:
    """How often the load was spared because the answer was certain."""
    stopped = sum(m.stopped for trial in trials for m in trial.result.measurements)
    if not stopped:
        return None
    times = "once" if stopped == 1 else f"{stopped} times"
    return (
        f"Load was stopped early {times} in the search, where a target was missed whatever was "
        "still to come or the server fell behind for certain; shares there are of what was seen"
    )


def failures_line(trials: Sequence[Trial]) -> str | None:
    """How many settings could not run, by reason."""
    counts: dict[str, int] = {}
    for trial in trials:
        if trial.result.failure is not None:
            reason = str(trial.result.failure.reason)
            counts[reason] = counts.get(reason, 0) + 1
    if not counts:
        return None
    listed = ", ".join(f"{reason} x{count}" for reason, count in sorted(counts.items()))
    return f"Settings that did not run: {listed}"
