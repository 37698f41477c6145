"""Telling: what Optuna is given, and what it must never be given."""

import math
from collections import Counter
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial

from advisor.search.objective import WORST_EXCESS
from advisor.search.space import Space
from advisor.terms.flags import FlagValue
from advisor.terms.job import Proposal, TrialResult
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from tests.unit.search.trials import (
    FOUR,
    TOKENS,
    by_one,
    by_truth,
    failed,
    measured,
    run,
    searcher,
)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[FrozenTrial]:
    """Every ended trial that Optuna is given, in order."""
    trials: list[FrozenTrial] = []
    real = optuna.trial.create_trial

    def recording(**arguments: Any) -> FrozenTrial:
        trial = real(**arguments)
        if trial.state.is_finished():
            trials.append(trial)
        return trial

    monkeypatch.setattr(optuna.trial, "create_trial", recording)
    return trials


def test_a_crash_is_worse_than_the_worst_miss_and_has_the_worst_score(
    sent: list[FrozenTrial],
) -> None:
    answers = [measured(-50.0), measured(-80.0), failed(Reason.DIED), measured(-70.0)]
    search = searcher()
    run(search, 4, lambda _: answers.pop(0))
    search.ask()
    last = sent[-4:]
    assert [trial.value for trial in last] == [-50.0, -80.0, -80.0, -70.0]
    misses = [sum(trial.constraints.values()) for trial in last]
    # it came as far as loading the model
    assert [round(miss, 6) for miss in misses] == [10, 10, 10.85, 10]


def test_settings_that_cannot_run_are_graded_by_how_far_off_they_were(
    sent: list[FrozenTrial],
) -> None:
    answers = [
        failed(Reason.KV_CACHE_TOO_SMALL, 0.25),
        failed(Reason.KV_CACHE_TOO_SMALL, 4.0),
        failed(Reason.UNSUPPORTED),
        failed(Reason.KV_CACHE_TOO_SMALL, math.inf),
        failed(Reason.KV_CACHE_TOO_SMALL, math.nan),
    ]
    search = searcher(targets=2)
    run(search, 5, lambda _: answers.pop(0))
    search.ask()
    found = [t.constraints["0"] for t in sent[-5:]]
    assert found == pytest.approx([20.25, 24.0, 20.85, 30.0, 20.85])


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("miss", [math.nan, math.inf, 0.5])
def test_optuna_is_never_given_a_number_that_is_none(
    sent: list[FrozenTrial], score: float | None, miss: float
) -> None:
    search = searcher(score=lambda _: score, constraints=lambda _: [miss])
    run(search, 6, lambda _: measured(1.0))
    assert sent
    for trial in sent:
        assert trial.value is not None
        assert math.isfinite(trial.value)
        assert all(0 < value <= WORST_EXCESS for value in trial.constraints.values())


def test_a_trial_with_no_score_and_no_miss_teaches_nothing_but_is_not_run_again(
    sent: list[FrozenTrial],
) -> None:
    done = run(searcher(FOUR, score=lambda _: None, constraints=lambda _: [0.0]), 9, by_one)
    assert len(done) == 4
    assert not sent


def test_our_own_faults_are_not_told_and_a_setting_is_tried_again_once(
    sent: list[FrozenTrial],
) -> None:
    done = run(searcher(FOUR), 20, lambda _: failed(Reason.PORT_TAKEN))
    assert Counter(proposal.setting.key for proposal, _ in done).most_common()[0][1] == 2
    assert len(done) == 8
    assert sum("retry" in proposal.origin for proposal, _ in done) == 4
    assert not sent


def test_an_interrupted_trial_is_neither_told_nor_seen(sent: list[FrozenTrial]) -> None:
    search = searcher(FOUR)
    first = search.ask()
    assert first is not None
    search.tell(first, TrialResult(TrialState.INTERRUPTED))
    assert search.ask() == first
    assert not sent


def test_infeasible_settings_turn_the_search_away() -> None:
    """Caching on never runs: after the start-up it is asked for less than half of the time."""
    on = 0
    for seed in range(6):

        def answer(setting: Setting) -> TrialResult:
            if setting.get("enable_prefix_caching"):
                return failed(Reason.UNSUPPORTED, 1.0)
            return by_truth(setting)

        done = run(searcher(seed=seed), 20, answer)
        on += sum(p.setting.get("enable_prefix_caching") is True for p, _ in done[8:])
    assert on < 6 * 12 / 3


def test_the_baseline_teaches_the_sampler_from_its_resolved_flags(
    sent: list[FrozenTrial],
) -> None:
    search = searcher()
    resolved: dict[str, FlagValue] = {
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.92,
        "enable_prefix_caching": True,
        "quantization": "none",
    }
    search.tell(Proposal(Setting.of("m", {}), "baseline"), measured(0.5, resolved))
    search.ask()
    # 8192 is the sixth value; 0.92 lies nearest to 0.9, the third
    assert [trial.params for trial in sent] == [
        {
            "(variant)": 0,
            "max_num_batched_tokens": 5,
            "gpu_memory_utilization": 2,
            "enable_prefix_caching": 0,
        }
    ]


@pytest.mark.parametrize(
    ("model", "resolved"),
    [
        ("other", {"max_num_batched_tokens": 512}),
        ("m", {}),
        ("m", {"max_num_batched_tokens": 64}),
        ("m", {"max_num_batched_tokens": "auto"}),
    ],
)
def test_a_baseline_outside_of_the_space_is_not_told_as_if_inside(
    sent: list[FrozenTrial], model: str, resolved: dict[str, FlagValue]
) -> None:
    search = searcher(Space((TOKENS,)))
    search.tell(Proposal(Setting.of(model, {}), "baseline"), measured(0.5, resolved))
    assert search.ask() is not None
    assert not sent


def test_a_wrong_number_of_constraints_or_an_unended_trial_is_a_bug_and_loud() -> None:
    search = searcher(targets=2)
    proposal = search.ask()
    assert proposal is not None
    with pytest.raises(ValueError, match="1 constraints for 2 targets"):
        search.tell(proposal, measured(1.0))
    with pytest.raises(ValueError, match="told before it ended"):
        search.tell(proposal, TrialResult(TrialState.RUNNING))
