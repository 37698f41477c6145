"""Asking: never twice, the same after a restart, and better than chance."""

import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

from advisor.search.knob import Knob
from advisor.search.space import Space
from advisor.search.study import Suggester
from advisor.terms.errors import InputError, SpaceError
from advisor.terms.flags import FlagValue
from advisor.terms.job import TrialResult
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from tests.unit.search.trials import (
    CACHE,
    FOUR,
    FULL,
    SAMPLERS,
    TOKENS,
    by_one,
    by_truth,
    failed,
    measured,
    run,
    searcher,
    truth,
)

if TYPE_CHECKING:
    from advisor.tune.ports import Searcher


def test_it_is_a_searcher_as_the_conductor_knows_it() -> None:
    port: Searcher = searcher()
    assert port.ask() is not None


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_four_settings_and_a_budget_of_ten_are_four_launches(sampler: str) -> None:
    done = run(searcher(FOUR, sampler=sampler), 10, lambda _: measured(1.0))
    assert len({proposal.setting.key for proposal, _ in done}) == len(done) == 4


def with_failures(setting: Setting) -> TrialResult:
    """Two kinds of setting that never serve among the rest."""
    if setting.get("max_num_batched_tokens") == 256:
        return failed(Reason.PORT_TAKEN)
    if setting.get("gpu_memory_utilization") == 0.95:
        return failed(Reason.OOM_PROFILING, 0.1)
    return by_truth(setting)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("told_before_restart", [1, 5, 9])
def test_a_restart_goes_on_as_if_never_stopped(sampler: str, told_before_restart: int) -> None:
    whole = run(searcher(sampler=sampler, seed=7), 14, with_failures)
    again = searcher(sampler=sampler, seed=7)
    for proposal, result in whole[:told_before_restart]:
        again.tell(proposal, result)
    rest = run(again, 14 - told_before_restart, with_failures)
    assert [p for p, _ in rest] == [p for p, _ in whole[told_before_restart:]]
    assert len({result.state for _, result in whole}) > (sampler != "grid")


def test_after_a_fault_of_ours_the_search_moves_on_before_it_tries_again() -> None:
    for seed in range(5):
        (first, _), (second, _) = run(searcher(seed=seed), 2, lambda _: failed(Reason.HUNG))
        assert first.setting != second.setting


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_fault_of_ours_costs_no_setting_its_turn(sampler: str) -> None:
    """Of one of four settings the first launch finds the memory taken."""
    seen: list[str] = []

    def answer(setting: Setting) -> TrialResult:
        seen.append(setting.key)
        best = max(setting.key for setting in FOUR.settings("m", {}))
        if setting.key == best and seen.count(best) == 1:
            return failed(Reason.MEMORY_TAKEN)
        return measured(1.0)

    run(searcher(FOUR, sampler=sampler), 10, answer)
    assert len(seen) == 5


def test_a_killed_trial_changes_nothing_when_it_is_run_again() -> None:
    whole = run(searcher(seed=3), 10, by_truth)
    again = searcher(seed=3)
    for proposal, result in whole[:6]:
        again.tell(proposal, result)
    lost = again.ask()
    assert lost is not None
    again.tell(lost, TrialResult(TrialState.INTERRUPTED))
    again.tell(lost, by_truth(lost.setting))
    assert [p for p, _ in [(lost, None), *run(again, 3, by_truth)]] == [p for p, _ in whole[6:]]


def test_another_seed_asks_other_settings() -> None:
    first, second = (run(searcher(seed=seed), 6, by_truth) for seed in (1, 2))
    assert [p.setting.key for p, _ in first] != [p.setting.key for p, _ in second]


def test_resume_does_not_count_again_what_was_told() -> None:
    again = searcher(FOUR)
    for proposal, result in run(searcher(FOUR), 3, lambda _: measured(1.0)):
        again.tell(proposal, result)
    assert len(run(again, 10, lambda _: measured(1.0))) == 1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_score_is_raised_and_tpe_beats_chance_in_both_directions(sign: float) -> None:
    def late_mean(sampler: str) -> float:
        means = []
        for seed in range(4):
            search = searcher(sampler=sampler, seed=seed, constraints=lambda _: [-1.0])
            done = run(search, 24, lambda setting: measured(sign * truth(setting)))
            means.append(np.mean([sign * truth(p.setting) for p, _ in done[12:]]))
        return float(np.mean(means))

    # chance is the mean over the Space; a sampler that minimised would fall below it
    assert late_mean("tpe") > late_mean("random") + 0.15


def test_a_setting_that_failed_once_and_then_ran_is_done() -> None:
    answers = [failed(Reason.MEMORY_TAKEN)] + [measured(1.0)] * 9
    done = run(searcher(FOUR, sampler="grid"), 9, lambda _: answers.pop(0))
    assert len(done) == 5
    assert done[0][0].setting == done[1][0].setting


def test_a_second_ask_before_the_answer_is_another_setting() -> None:
    search = searcher(FOUR)
    asked = [search.ask() for _ in range(5)]
    assert len({proposal.setting.key for proposal in asked if proposal}) == 4
    assert asked[4] is None


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_an_earlier_process_asked_for_is_not_asked_again_while_it_runs(sampler: str) -> None:
    proposal, after = searcher(FOUR, sampler=sampler).ask(), searcher(FOUR, sampler=sampler)
    assert proposal is not None
    after.resume(proposal)
    asked = [after.ask() for _ in range(3)]
    assert len({each.setting for each in asked if each} - {proposal.setting}) == 3
    assert after.ask() is None


def test_with_nothing_feasible_it_goes_on_to_the_end() -> None:
    space = Space((TOKENS, CACHE))
    done = run(searcher(space), 40, lambda _: failed(Reason.UNSUPPORTED))
    assert len(done) == 14


@pytest.mark.parametrize("sampler", ["advisor", "tpe"])
def test_conditional_knobs_raise_no_warning_and_are_absent_otherwise(sampler: str) -> None:
    space = Space(
        (
            Knob.of("enable_expert_parallel", [True, False]),
            Knob.of("all2all_backend", ["a", "b", "c"], when={"enable_expert_parallel": True}),
            TOKENS,
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = run(searcher(space, sampler=sampler), 28, lambda s: measured(1.0 + len(s.flags)))
    assert len(done) == 28 or sampler == "advisor"
    for proposal, _ in done:
        expert = proposal.setting.get("enable_expert_parallel") is True
        assert (proposal.setting.get("all2all_backend") is not None) == expert


def test_no_rule_is_broken_by_a_suggestion() -> None:
    space = Space((TOKENS, Knob.of("max_num_seqs", [256, 1024, 4096])))
    done = run(searcher(space, sampler="tpe"), 50, lambda _: measured(1.0))
    assert len(done) == 7 + 5 + 3
    for proposal, _ in done:
        tokens, seqs = (
            proposal.setting.get(n) for n in ("max_num_batched_tokens", "max_num_seqs")
        )
        assert isinstance(tokens, int)
        assert isinstance(seqs, int)
        assert tokens >= seqs


def test_fixed_flags_and_the_variant_are_in_every_proposal() -> None:
    done = run(searcher(fixed={"max_model_len": 4096}), 12, by_truth)
    assert {p.setting.get("max_model_len") for p, _ in done} == {4096}
    assert {(p.setting.variant, p.setting.get("quantization")) for p, _ in done} == {
        ("bf16", None),
        ("fp8", "fp8"),
    }


def test_a_model_that_only_repeats_itself_cannot_make_the_search_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck: dict[str, FlagValue] = {"max_num_seqs": 2, "enable_prefix_caching": False}
    monkeypatch.setattr(Suggester, "suggest", lambda self, study: (None, stuck))
    done = run(searcher(FOUR, sampler="tpe"), 10, by_one)
    assert dict(done[0][0].setting.flags) == stuck
    assert [p.origin for p, _ in done] == ["tpe", *["random, since tpe repeats itself"] * 3]
    assert len({p.setting.key for p, _ in done}) == 4


_PROGRAM = """
from advisor.search.searcher import OptunaSearcher
from advisor.search.spacefile import parse_space
from advisor.terms.job import TrialResult
from advisor.terms.outcome import TrialState
space = parse_space('''
knobs.enable_expert_parallel.values = [true, false]
knobs.all2all_backend.values = ["a", "b", "c"]
knobs.all2all_backend.when = { enable_expert_parallel = true }
knobs.max_num_seqs.values = [1, 2, 4, 8, 16, 32]
variants.a = {}
variants.b.model = "b"
''')
search = OptunaSearcher(space, "m", {}, score=lambda _: 1.0, constraints=lambda _: [], targets=0)
for _ in range(16):
    proposal = search.ask()
    print(proposal)
    search.tell(proposal, TrialResult(TrialState.MEASURED))
"""


@pytest.mark.slow
def test_another_process_asks_the_same_whatever_its_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"Proposal") == 16


def test_grid_goes_in_the_order_of_the_space() -> None:
    done = run(searcher(sampler="grid"), 200, by_truth)
    assert [p.setting for p, _ in done] == FULL.settings("m", {})


def test_ten_thousand_settings_can_be_asked_from() -> None:
    wide = Space(
        (
            Knob.ranging("max_num_batched_tokens", 1, 1000, step=1),
            Knob.ranging("stream_interval", 1, 10, step=1),
        )
    )
    answers = [failed(Reason.OOM_LOAD)] + [measured(1.0)] * 5
    assert len(run(searcher(wide), 6, lambda _: answers.pop(0))) == 6


def test_samplers_that_there_are_not_are_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="'best' is unknown; one of advisor, tpe, gp, random, g"):
        searcher(sampler="best")


def test_a_space_with_no_valid_setting_is_refused_at_once() -> None:
    with pytest.raises(SpaceError, match="no valid setting"):
        searcher(Space((TOKENS,)), fixed={"max_num_seqs": 99_999})
