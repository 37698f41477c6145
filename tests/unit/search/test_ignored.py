"""A knob that a server does not take: what differs in it alone is not launched again."""

from collections.abc import Callable

import pytest

from advisor.search.knob import Knob
from advisor.search.space import Space, Variant
from advisor.terms.flags import FlagValue
from advisor.terms.job import Launch, Proposal, TrialResult
from advisor.terms.measurement import Headroom
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from tests.unit.search.trials import SAMPLERS, failed, measured, run, searcher

SEQS, INTERVAL, POLICY = "max_num_seqs", "stream_interval", "scheduling_policy"
KNOBS = (Knob.of(INTERVAL, [1, 2]), Knob.of(SEQS, [4, 8, 16, 32]))
SPACE = Space(KNOBS)
#: What a server makes of one flag's value.
Takes = Callable[[FlagValue], FlagValue]


def served(setting: Setting, name: str, takes: Takes) -> TrialResult:
    """Measured, on a server that says what it made of `name`."""
    asked = setting.get(name)
    assert asked is not None
    runs = takes(asked)
    told = () if runs == asked else (f"{name}: asked {asked}, runs {runs}",)
    launch = Launch(tuple(sorted({**dict(setting.flags), name: runs}.items())), 60.0, None, told)
    return TrialResult(TrialState.MEASURED, launch=launch, headroom=Headroom(None, None, 1.0))


def launched(space: Space, name: str, takes: Takes) -> list[dict[str, FlagValue]]:
    """The flags of all launches of a search to the end of its Space."""
    done = run(searcher(space, sampler="grid"), 99, lambda s: served(s, name, takes))
    return [dict(proposal.setting.flags) for proposal, _ in done]


@pytest.mark.parametrize("runs", [2, 64])
def test_a_knob_that_is_ignored_is_launched_at_one_value_for_each_of_the_others(
    runs: int,
) -> None:
    found = launched(SPACE, SEQS, lambda _: runs)
    assert found == [{INTERVAL: interval, SEQS: 4} for interval in (1, 2)]


def test_values_above_the_one_that_runs_need_a_launch_of_their_own_once() -> None:
    """4 -> 10 may be a floor; 16 -> 10 shows that it is none."""
    found = launched(SPACE, SEQS, lambda _: 10)
    assert [(flags[INTERVAL], flags[SEQS]) for flags in found] == [(1, 4), (1, 16), (2, 4)]


def test_a_floor_takes_what_lies_above_it() -> None:
    found = launched(SPACE, SEQS, lambda asked: max(int(asked), 10))
    tried = [flags[SEQS] for flags in found if flags[INTERVAL] == 1]
    assert tried == [4, 16, 32]


def test_a_ceiling_takes_what_lies_below_it() -> None:
    found = launched(SPACE, SEQS, lambda asked: min(int(asked), 10))
    tried = [flags[SEQS] for flags in found if flags[INTERVAL] == 1]
    assert tried == [4, 8, 16]


def test_the_value_that_runs_is_not_asked_for_by_name() -> None:
    found = launched(SPACE, SEQS, lambda _: 8)
    assert [(flags[INTERVAL], flags[SEQS]) for flags in found] == [(1, 4), (1, 16), (2, 4)]


def test_where_another_flag_decides_what_runs_nothing_is_concluded() -> None:
    def depends(setting: Setting) -> TrialResult:
        return served(setting, SEQS, lambda _: 64 * int(setting.get(INTERVAL) or 0))

    done = run(searcher(SPACE, sampler="grid"), 99, depends)
    # after the first launch it looked ignored; with the other interval it ran another value
    tried = [(p.setting.get(INTERVAL), p.setting.get(SEQS)) for p, _ in done]
    assert tried == [(1, 4), (2, 4), (2, 8), (2, 16), (2, 32)]


def test_words_have_no_order_so_two_of_them_show_it() -> None:
    space = Space((Knob.of(POLICY, ["a", "b", "c", "d"]),))
    assert len(launched(space, POLICY, lambda _: "fcfs")) == 2
    taken = launched(space, POLICY, lambda asked: "d" if asked == "a" else asked)
    assert [flags[POLICY] for flags in taken] == ["a", "b", "c"]


def test_a_switch_that_is_ignored_is_launched_once() -> None:
    space = Space((Knob.of("enable_prefix_caching", [False, True]),))
    assert len(launched(space, "enable_prefix_caching", lambda _: True)) == 1


def test_what_one_variant_ignores_another_may_take() -> None:
    space = Space(
        (Knob.of(SEQS, [4, 8]),),
        (Variant("bf16"), Variant("fp8", flags=(("quantization", "fp8"),))),
    )

    def answer(setting: Setting) -> TrialResult:
        return served(setting, SEQS, lambda asked: 64 if setting.variant == "bf16" else asked)

    done = run(searcher(space, sampler="grid"), 99, answer)
    tried = [(p.setting.variant, p.setting.get(SEQS)) for p, _ in done]
    assert tried == [("bf16", 4), ("fp8", 4), ("fp8", 8)]


def test_what_cannot_run_cannot_run_under_another_value_of_it_either() -> None:
    """The first did not come up, so nothing was known then; what the second says counts for it."""

    def answer(setting: Setting) -> TrialResult:
        if setting.get(INTERVAL) == 1:
            return failed(Reason.UNSUPPORTED)
        return served(setting, SEQS, lambda _: 64)

    space = Space((Knob.of(SEQS, [4, 8, 16]), Knob.of(INTERVAL, [1, 2])))
    done = run(searcher(space, sampler="grid"), 99, answer)
    tried = [(p.setting.get(SEQS), p.setting.get(INTERVAL)) for p, _ in done]
    assert tried == [(4, 1), (4, 2)]


def test_a_fault_of_ours_is_no_answer() -> None:
    answers = [failed(Reason.HUNG), failed(Reason.HUNG)]

    def answer(setting: Setting) -> TrialResult:
        return answers.pop() if answers else served(setting, SEQS, lambda _: 64)

    done = run(searcher(Space((Knob.of(SEQS, [4, 8, 16]),)), sampler="grid"), 99, answer)
    assert [p.setting.get(SEQS) for p, _ in done] == [4, 4, 8]


def test_what_the_baseline_said_counts() -> None:
    """As the conductor tells it: with every knob as it was asked for, or as the server ran it."""
    search = searcher(SPACE, sampler="grid")
    baseline = Setting.of("m", {INTERVAL: 1, SEQS: 100}, (INTERVAL, SEQS))
    search.tell(Proposal(baseline, "baseline"), served(baseline, SEQS, lambda _: 64))
    done = run(search, 99, lambda s: served(s, SEQS, lambda _: 64))
    # 4 lies on the other side of 64 than 100 does
    assert [(p.setting.get(INTERVAL), p.setting.get(SEQS)) for p, _ in done] == [(1, 4), (2, 4)]


def test_a_server_that_says_nothing_is_taken_at_its_word() -> None:
    def quiet(setting: Setting) -> TrialResult:
        return measured(1.0, dict(setting.flags))

    assert len(run(searcher(SPACE, sampler="grid"), 99, quiet)) == 8


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("told_before_restart", [1, 2, 3])
def test_a_restart_knows_it_again(sampler: str, told_before_restart: int) -> None:
    def answer(setting: Setting) -> TrialResult:
        return served(setting, SEQS, lambda _: 10)

    whole = run(searcher(SPACE, sampler=sampler, seed=5), 99, answer)
    again = searcher(SPACE, sampler=sampler, seed=5)
    for proposal, result in whole[:told_before_restart]:
        again.tell(proposal, result)
    assert [p for p, _ in run(again, 99, answer)] == [p for p, _ in whole[told_before_restart:]]
    assert len(whole) in (2, 3)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_sampler_launches_one_server_twice_once_it_is_known(sampler: str) -> None:
    """Both sides of the value that runs take a launch each at most; after that one an interval."""
    space = Space((Knob.of(INTERVAL, [1, 2, 3, 4]), KNOBS[1]))
    done = run(searcher(space, sampler=sampler), 99, lambda s: served(s, SEQS, lambda _: 10))
    assert 4 <= len(done) <= 5
    assert {p.setting.get(INTERVAL) for p, _ in done} == {1, 2, 3, 4}
