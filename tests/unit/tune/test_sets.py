"""Several sets of GPUs: the search runs on them side by side, and nothing else does."""

import asyncio
from dataclasses import replace

import pytest

from advisor.terms.advice import AdviceOutcome
from advisor.terms.errors import Blocked, EngineError
from advisor.terms.job import Phase
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.profile import WindowRole
from advisor.terms.setting import Setting
from tests.contract.scripted_bench import Dials, failure
from tests.unit.tune.jobs import BASELINE, SEQS, World, by_seqs, seqs, spec_with
from tests.unit.tune.sets import SPEC, Sets, last, side_by_side, told
from tests.unit.tune.test_restart import Killed

GAIN = by_seqs({16: Dials(carries=2)})
OURS = failure(Reason.PORT_TAKEN, "the port is taken")
INTERRUPTED = TrialState.INTERRUPTED


def test_search_trials_run_side_by_side_and_nothing_else_does() -> None:
    world = Sets(GAIN, SPEC)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    phases = [trial.phase for trial in world.trials]
    assert phases[:6] == [Phase.BASELINE, Phase.NEIGHBOURS, *[Phase.SEARCH] * 4]
    assert phases[6:] == [Phase.CONFIRM] * 6
    assert side_by_side(world) == {Phase.SEARCH}
    first, second = world.benches
    assert len(first.launched) + len(second.launched) == len(world.trials) + 1
    assert {plan.window.role for _, plan in second.played} == {WindowRole.SEARCH}
    assert not world.are_serving


def test_no_setting_is_asked_twice_while_it_runs_or_after() -> None:
    world = Sets(by_seqs({}), spec_with(launches=50, gpus="0;1;2"), turns=last(8))
    advice = world.run()
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 32, 64]
    assert told(world) == [BASELINE, 16, 32, 64, 8]
    assert "The search ended because every setting of the Space was tried" in advice.reasons


def test_a_job_on_one_set_is_the_same_as_ever() -> None:
    """No check of neighbours, and the same deeds in the same order."""
    spec = spec_with(launches=5)
    plain, sets = World(GAIN, spec), Sets(GAIN, spec)
    assert plain.run().reasons == sets.run().reasons
    assert [deed for deed, _ in plain.deeds] == [deed for deed, _ in sets.deeds]
    assert side_by_side(sets) == set()


@pytest.mark.parametrize("launches", [4, 5])
def test_running_launches_count_to_the_budget(launches: int) -> None:
    world = Sets(by_seqs({}), spec_with(launches=launches, gpus="0;1"))
    advice = world.run()
    assert len(world.of(Phase.SEARCH)) == launches - 2
    assert advice.search_launches == launches
    assert f"The search ended after {launches} launches, its budget" in advice.reasons


def test_what_failed_by_our_fault_is_asked_again_though_nothing_else_was_left() -> None:
    """While a launch runs, `nothing is left` may be said too early."""
    failed: list[Setting] = []

    def script(setting: Setting) -> Dials:
        if setting.get(SEQS) != 8 or failed:
            return Dials()
        failed.append(setting)
        return Dials(crash_at_replay=0, crash=failure(Reason.HUNG, "no token"))

    world = Sets(script, spec_with(launches=50, gpus="0;1"), turns=last(8))
    world.run()
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 32, 64, 8]
    assert world.of(Phase.SEARCH)[-1].result.state is TrialState.MEASURED


def test_a_restart_tells_the_searcher_in_the_order_of_ending() -> None:
    kill = [Killed("before the confirmation")]

    def tap(deed: str, detail: object) -> None:
        if deed == "spend" and kill:
            raise kill.pop()

    world = Sets(GAIN, SPEC, tap=tap, turns=last(8))
    with pytest.raises(Killed):
        world.run()
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 32, 64]
    heard = told(world)
    assert heard == [BASELINE, 16, 32, 64, 8]
    before = len(world.deeds)
    assert world.run().outcome is AdviceOutcome.RECOMMENDED
    assert told(world, before) == heard


def cut_at_16(*cuts: BaseException) -> Sets:
    """What goes wrong when 16 is launched, while 8 starts on the other set."""
    left = list(cuts)

    def tap(deed: str, detail: object) -> None:
        if deed == "launch" and isinstance(detail, Setting) and detail.get(SEQS) == 16 and left:
            raise left.pop()

    return Sets(GAIN, SPEC, tap=tap, turns=last(8))


def test_a_set_that_blocks_ends_the_servers_of_the_others() -> None:
    world = cut_at_16(Blocked("process 7 cannot be ended"))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.BLOCKED
    assert advice.reasons[0] == "process 7 cannot be ended"
    states = [trial.result.state for trial in world.of(Phase.SEARCH)]
    assert states == [INTERRUPTED, TrialState.FAILED]
    assert not world.are_serving


@pytest.mark.parametrize(
    "cut", [asyncio.CancelledError(), KeyboardInterrupt(), EngineError("no room for its log")]
)
def test_what_ends_the_job_in_one_set_cuts_off_the_others_and_a_resume_launches_them_again(
    cut: BaseException,
) -> None:
    world = cut_at_16(cut)
    with pytest.raises(type(cut)):
        world.run()
    assert [trial.result.state for trial in world.of(Phase.SEARCH)] == [INTERRUPTED] * 2
    assert not world.are_serving
    assert world.run().outcome is AdviceOutcome.RECOMMENDED
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 8, 16, 32, 64]
    assert [proposal.setting.get(SEQS) for proposal in world.done("resume")] == [8, 16]
    origins = [trial.origin for trial in world.of(Phase.SEARCH)]
    assert set(origins) == {"grid"}
    assert len(world.of(Phase.NEIGHBOURS)) == 1


class Grave:
    """A tap that ends the process before the deed of this number: nothing is done after it."""

    def __init__(self, at: int) -> None:
        self._at, self._count, self.is_dead = at, 0, False

    def __call__(self, deed: str, detail: object) -> None:
        self.is_dead = self.is_dead or self._count == self._at
        self._count += 1
        if self.is_dead:
            raise Killed(f"before {deed}")


ALL = [3, *(pytest.param(part, marks=pytest.mark.slow) for part in (0, 1, 2, 4, 5, 6))]


@pytest.mark.parametrize("part", ALL)
def test_a_kill_before_any_deed_loses_no_setting_and_repeats_none(part: int) -> None:
    spec = replace(SPEC, rounds=1, multiples=(1.0, 2.0))
    calm = Sets(GAIN, spec)
    expected = calm.run()
    running = 0
    for number in range(part, len(calm.deeds), 7):
        world = Sets(GAIN, spec, tap=(grave := Grave(number)))
        with pytest.raises(Killed):
            world.run()
        left = [t for t in world.trials if t.result.state is TrialState.RUNNING]
        running = max(running, len(left))
        grave.is_dead = False
        advice = world.run()
        assert (advice.outcome, advice.diff) == (expected.outcome, expected.diff), number
        assert advice.search_launches == expected.search_launches, number
        ended = [t for t in world.trials if t.result.state is not INTERRUPTED]
        assert sorted(map(str, seqs(ended))) == sorted(map(str, seqs(calm.trials))), number
        assert not world.are_serving
    assert running == 2, "one on each set"


def test_failures_in_a_row_are_those_that_ended_last() -> None:
    """8 goes on for ever, so to say, while all others fail; that it runs ends no row."""
    world = Sets(
        by_seqs({BASELINE: Dials(), 8: Dials()}, Dials(start=OURS)),
        spec_with(launches=50, gpus="0;1"),
        turns=last(8),
    )
    advice = world.run()
    assert advice.outcome is AdviceOutcome.BLOCKED
    assert advice.reasons[0] == "5 launches in a row failed, the last: the port is taken"
    first, *others = world.of(Phase.SEARCH)
    assert (first.setting.get(SEQS), first.result.state) == (8, INTERRUPTED)
    assert [trial.result.state for trial in others] == [TrialState.FAILED] * 5
    assert not world.are_serving
