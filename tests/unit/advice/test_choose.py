"""Who is confirmed, and in which order."""

from dataclasses import replace

import pytest

from advisor.advice.choose import diff, effective, finalists, is_eligible, score
from advisor.terms.job import Launch, Objective, Trial, TrialResult
from advisor.terms.measurement import Headroom
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from tests.unit.advice.examples import (
    MET,
    MISSED,
    SPEC,
    UNDECIDED,
    baseline,
    broken,
    measurement,
    setting,
    trial,
)

BASE = baseline(measurement(MET), measurement(MISSED, 1.5))


def numbers(*trials: Trial, rounds: int = 9, base: Trial = BASE) -> list[int]:
    spec = replace(SPEC, rounds=rounds)
    found = finalists([base, *trials], spec, base)
    return [each.number for each in found]


def test_what_carries_more_goes_first_and_what_ties_does_not_go() -> None:
    two = trial(1, measurement(MET), measurement(MET, 2.0))
    three = trial(2, measurement(MET), measurement(MET, 3.0))
    tie = trial(3, measurement(MET), measurement(MISSED, 3.0))
    assert numbers(two, three, tie) == [2, 1]
    assert numbers(two, three, tie, rounds=1) == [2]
    assert numbers(tie) == []
    assert numbers() == []


def test_of_equals_the_smaller_change_goes_first_then_the_earlier() -> None:
    points = (measurement(MET), measurement(MET, 2.0))
    large = trial(1, *points, of=setting(8, scheduling_policy="priority"))
    small, later = trial(2, *points, of=setting(8)), trial(3, *points, of=setting(9))
    assert numbers(large, small, later) == [2, 3, 1]


def test_what_missed_at_the_load_or_did_not_run_is_no_finalist() -> None:
    lost = baseline(measurement(MISSED))
    missed = trial(1, measurement(MISSED), measurement(MET, 0.5))
    dead = trial(2, failure=broken(Reason.OOM_LOAD))
    ours = trial(3, failure=broken(Reason.HUNG))
    undecided = trial(4, measurement(UNDECIDED))
    assert numbers(missed, dead, ours, undecided, base=lost) == [4]


def test_a_baseline_that_did_not_start_leaves_every_candidate() -> None:
    dead = baseline(failure=broken(Reason.OOM_LOAD))
    assert numbers(trial(1, measurement(MET)), base=dead) == [1]
    assert finalists([], SPEC, None) == []


def test_precision_is_checkpoint_weights_and_kv_cache() -> None:
    base = setting(256)
    for changed in (
        setting(256, quantization="fp8"),
        setting(256, kv_cache_dtype="fp8"),
        setting(256, dtype="float16"),
        Setting.of("m-awq", {"max_num_seqs": 256}),
    ):
        assert not is_eligible(changed, base, accept_precision_change=False)
        assert is_eligible(changed, base, accept_precision_change=True)
    assert is_eligible(setting(8), base, accept_precision_change=False)
    assert is_eligible(setting(8, kv_cache_dtype="auto"), base, accept_precision_change=False)


@pytest.mark.parametrize("objective", list(Objective))
def test_a_better_trial_scores_higher_by_every_objective(objective: Objective) -> None:
    spec = replace(SPEC, objective=objective)
    slow = (measurement(MET, estimate=900.0), measurement(MISSED, 1.5))
    quick = (
        replace(
            measurement(MET, estimate=300.0),
            goodput_rps=9.0,
            output_tokens_per_s=9e3,
            total_tokens_per_s=9e3,
        ),
        measurement(MET, 1.5),
    )
    worse, better = (score(trial(1, *points).result, spec) for points in (slow, quick))
    assert worse is not None
    assert better is not None
    assert better > worse


@pytest.mark.parametrize("objective", list(Objective))
def test_what_was_not_measured_at_the_load_has_no_score(objective: Objective) -> None:
    spec = replace(SPEC, objective=objective)
    elsewhere = trial(1, measurement(MET, 0.5)).result
    dead = trial(1, measurement(MET), failure=broken(Reason.CRASHED_UNDER_LOAD)).result
    for result in (elsewhere, dead, TrialResult(TrialState.FAILED)):
        assert score(result, spec) is None


def test_a_diff_names_every_flag_that_differs() -> None:
    old = Setting.of("m", {"max_num_seqs": 256, "enable_prefix_caching": True})
    new = Setting.of("m-fp8", {"max_num_seqs": 64, "enable_prefix_caching": False, "dtype": "x"})
    assert diff(new, old) == (
        "model m -> m-fp8",
        "--dtype (not set) -> x",
        "--enable-prefix-caching on -> off",
        "--max-num-seqs 256 -> 64",
    )
    assert diff(old, old) == ()


def test_effective_fills_in_knobs_that_the_server_told_and_nothing_else() -> None:
    launch = Launch((("block_size", 16), ("max_num_seqs", 128), ("seed", 0)), 1.0, None)
    asked = Setting.of("m", {"seed": 7}, ("max_num_seqs", "seed", "untold"))
    ran = replace(BASE, setting=asked, result=replace(BASE.result, launch=launch))
    # a flag that was given stays as given
    assert dict(effective(ran).flags) == {"max_num_seqs": 128, "seed": 7}
    never = replace(ran, result=TrialResult(TrialState.FAILED))
    assert effective(never) == asked


def test_what_a_launch_cannot_tell_from_the_best_goes_first_when_it_changes_less() -> None:
    def carrying(number: int, estimate: float, of: Setting) -> Trial:
        points = (measurement(MET), measurement(MET, 2.0))
        found = trial(number, *points, of=of)
        bracket = Headroom(2.0, None, estimate)
        return replace(found, result=replace(found.result, headroom=bracket))

    large = carrying(1, 2.5, setting(8, scheduling_policy="priority"))
    assert numbers(large, carrying(2, 2.45, setting(8))) == [2, 1]
    assert numbers(large, carrying(2, 2.30, setting(8))) == [1, 2]
