"""Sentences, to the letter."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.advise import advise
from advisor.advice.explain import (
    error_limit_line,
    evidence_lines,
    failures_line,
    noise_line,
    percent,
    precision_line,
    rehearsal_line,
    targets_line,
)
from advisor.terms.calibration import Calibration, Rehearsed, Rung
from advisor.terms.job import Job
from advisor.terms.measurement import Judgement, Noise
from advisor.terms.outcome import Reason
from advisor.terms.target import Metric, Target, parse_target
from tests.unit.advice.examples import (
    ERRORS,
    MET,
    MISSED,
    SPEC,
    TTFT,
    UNDECIDED,
    arm,
    baseline,
    broken,
    case,
    judged,
    measurement,
    round_,
    setting,
    trial,
)


def test_a_whole_advice_to_the_letter() -> None:
    base = baseline(measurement(MISSED))
    dead = trial(3, failure=broken(Reason.OOM_LOAD))
    rounds = [round_(arm(setting(8), measurement(MET)), arm(setting(), measurement(MISSED)))]
    advice = advise(case([base, trial(8, measurement(MET)), dead], rounds))
    assert advice.reasons == (
        "Confirmed on 3 held-out windows, each on a fresh launch: it meets the targets at the "
        "job's load, where the baseline misses them",
        "TTFT p95 met: 1 % of requests over 1000 ms, at most 2 % with 95 % confidence, "
        "5 % allowed; baseline 30.0 %",
        "Errors met: 1 % of requests failed, at most 2 % with 95 % confidence, 1 % allowed; "
        "baseline 1 %",
        "It survived 40 of the profile's longest requests at once",
        "From the search to held-out load, shares over the limit: at 1x (claimed: met -> met) "
        "TTFT p95 1 % -> 1 %, errors 1 % -> 1 %",
        "Settings that did not run: oom_load x1",
        "Bounds are at their nominal level: the simulator does not know this model on this "
        "hardware, so they could not be rehearsed; near saturation, and where bursts are rare, "
        "they may be too narrow",
    )


def rehearsed_job(*truth_upper: tuple[float, float], targets: Sequence[Target] = (TTFT,)) -> Job:
    rungs = tuple(Rung(1.0, truth, upper, truth) for truth, upper in truth_upper)
    found = (Rehearsed(Metric.TTFT, 95.0, 0.95, 0.975, rungs),)
    spec = replace(SPEC, calibration=Calibration("m", "h100-sxm", 20, found))
    return replace(case([]).job, spec=spec, targets=tuple(targets))


@pytest.mark.parametrize(
    ("rung", "said"),
    [
        ((1000, 999), "m on h100-sxm: no limit had to be tightened"),
        ((1000, 500), "m on h100-sxm: to be met, TTFT p95 must be shown within 500 ms"),
        ((1000, 1), "m on h100-sxm: TTFT p95 cannot be met on windows this short"),
    ],
)
def test_what_the_rehearsal_costs_a_limit_is_said(rung: tuple[float, float], said: str) -> None:
    line = rehearsal_line(rehearsed_job(rung), 0.95)
    assert line.startswith("Bounds were rehearsed on 20 simulated windows of this profile")
    assert line.endswith(said)


def test_the_noise_band_is_what_a_difference_has_to_leave() -> None:
    noise = [Noise(Metric.TTFT, 95.0, 1.25, 3), Noise(Metric.ITL, 99.0, 1.02, 3)]
    assert noise_line(noise) == (
        "Noise band of this job: 3 launches of the current setting against 3 others of it would "
        "show TTFT p95 0.80 to 1.25 times, ITL p99 0.98 to 1.02 times"
    )
    assert noise_line([]) is None
    assert noise_line(noise) in advise(replace(case([]), noise=tuple(noise))).reasons


def test_a_target_that_was_not_rehearsed_is_named() -> None:
    easier = parse_target("ttft:p90<=1s")
    job = rehearsed_job((1000, 999), targets=(easier, parse_target("itl:p99<=9ms"), ERRORS))
    assert rehearsal_line(job, 0.95).endswith(
        ": TTFT p90 was not, so it is met only where p95 is, ITL p99 was not, so it cannot be met "
        "here, only in a job that has it as a target"
    )


def test_a_miss_is_shown_with_the_bound_that_proves_it() -> None:
    assert targets_line(judged(MISSED), None) == (
        "TTFT p95 missed: 30.0 % of requests over 1000 ms, at least 20.0 % with 95 % confidence, "
        "5 % allowed"
    )
    assert "at most 9 % with 95 %" in targets_line(judged(UNDECIDED), None)


def test_no_samples_are_said_to_prove_nothing() -> None:
    empty = Judgement(TTFT, UNDECIDED, None, None, None, None, None, None, 0, 0, 0.95)
    assert targets_line(empty, None) == "TTFT p95: no samples, so nothing is proven"
    assert targets_line(judged(MET), empty) == targets_line(judged(MET), None)


@pytest.mark.parametrize(
    ("target", "things"),
    [("itl:p99<=40ms", "gaps"), ("token_itl:p99<=40ms", "tokens"), ("e2e:p95<=9s", "requests")],
)
def test_shares_are_of_what_the_metric_counts(target: str, things: str) -> None:
    line = targets_line(judged(MET, parse_target(target)), None)
    assert f"% of {things} over" in line


def test_every_target_has_a_line_with_the_baselines_share_beside() -> None:
    lines = evidence_lines(measurement(MET), measurement(UNDECIDED))
    assert [line.partition(":")[0] for line in lines] == ["TTFT p95 met", "Errors met"]
    assert lines[0].endswith("baseline 4 %")
    assert evidence_lines(None, measurement(MET)) == []


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.004, "0.4 %"), (0.000012, "0.0012 %"), (0.05, "5 %"), (1.0, "100.0 %")],
)
def test_a_percentage_shows_small_shares(share: float, text: str) -> None:
    assert percent(share) == text


@given(st.floats(min_value=1e-9, max_value=1.0))
def test_a_share_above_zero_is_never_shown_as_none(share: float) -> None:
    assert float(percent(share).removesuffix(" %")) == pytest.approx(100 * share, rel=0.05)


def test_a_raised_error_limit_is_told() -> None:
    raised = replace(ERRORS, limit=0.26, asked="errors<=0.1%")
    assert error_limit_line([TTFT, raised]) == (
        "errors<=0.1% cannot be proven with a profile of this length; failures are judged at "
        "errors<=0.26%, the least that it can prove"
    )
    assert error_limit_line([TTFT, ERRORS]) is None


def test_settings_that_did_not_run_are_counted_by_reason() -> None:
    reasons = (Reason.OOM_LOAD, Reason.HUNG, Reason.OOM_LOAD)
    trials = [trial(n, failure=broken(reason)) for n, reason in enumerate(reasons)]
    assert failures_line(trials) == "Settings that did not run: hung x1, oom_load x2"
    assert failures_line([trial(1, measurement())]) is None


def test_precision_is_mentioned_only_where_it_kept_a_trial_from_being_advised() -> None:
    base = baseline(measurement(MET))
    fp8 = trial(4, measurement(MET), of=setting(8, quantization="fp8"))
    line = precision_line([base, fp8], SPEC, base)
    assert line is not None
    assert line.startswith("Not eligible: 1 trial changes the precision")
    assert "(best: trial 4, headroom >= 1)" in line
    assert precision_line([base, trial(5, measurement(MET))], SPEC, base) is None
    assert precision_line([base, fp8], replace(SPEC, accept_precision_change=True), base) is None
    assert precision_line([fp8], SPEC, None) is None
