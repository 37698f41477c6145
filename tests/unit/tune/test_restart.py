"""A job that is killed anywhere goes on where it was, as if it had never stopped."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from advisor.search.searcher import SamplerName
from advisor.terms.advice import Advice, AdviceOutcome
from advisor.terms.errors import EngineError, LedgerError
from advisor.terms.job import JobSpec, Phase, Proposal, Trial, TrialResult
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict
from advisor.tune.ports import Searcher
from tests.contract.scripted_bench import Dials, Script, failure
from tests.unit.tune.jobs import BASELINE, SEQS, World, by_seqs, seqs, spec_with


class Killed(BaseException):
    """No code of ours may catch this, as none can catch the end of its process."""


def seqs_of(value: int) -> Setting:
    return Setting.of("m", {SEQS: value}, (SEQS,))


class Killer:
    """A tap that ends the process before the deeds with these numbers, counted over all lives."""

    def __init__(self, *at: int) -> None:
        self._at = set(at)
        self._count = 0

    def __call__(self, deed: str, detail: object) -> None:
        number, self._count = self._count, self._count + 1
        if number in self._at:
            raise Killed(f"before {deed}")


def run_to_the_end(world: World, lives: int = 10) -> Advice:
    for _ in range(lives):
        try:
            return world.run()
        except Killed:
            continue
    raise AssertionError(f"no advice after {lives} lives")


def ended(trials: Sequence[Trial]) -> list[Trial]:
    """Without the interrupted ones, numbered as if there were none, without times."""
    kept = [t for t in trials if t.result.state is not TrialState.INTERRUPTED]
    return [replace(t, number=n, elapsed_s=None, token=None) for n, t in enumerate(kept)]


RELATIVE = "ttft:p95<=0.6x", "errors<=2%"
SMALL = spec_with(*RELATIVE, launches=2, rounds=1, multiples=(1.0,), sampler="random")
LARGER = replace(SMALL, launches=3, multiples=(1.0, 2.0))
GAIN = by_seqs({BASELINE: Dials(1000)}, Dials(400, carries=2))


def assert_same_end(world: World, advice: Advice, calm: World, expected: Advice) -> None:
    assert advice == expected
    assert ended(world.trials) == ended(calm.trials)
    assert world.ledger.job(world.job.id).state == "done"
    interrupted = [t for t in world.trials if t.result.state is TrialState.INTERRUPTED]
    assert len(world.trials) == len(calm.trials) + len(interrupted)


@pytest.mark.parametrize("spec", [SMALL, pytest.param(LARGER, marks=pytest.mark.slow)])
def test_a_kill_before_any_deed_changes_neither_the_advice_nor_the_trials(spec: JobSpec) -> None:
    """Deeds are all writes, launches, replays, asks and tells; reads change nothing."""
    calm = World(GAIN, spec)
    expected = calm.run()
    assert expected.outcome is AdviceOutcome.RECOMMENDED
    assert len(calm.deeds) > 60
    for number in range(len(calm.deeds)):
        world = World(GAIN, spec, tap=Killer(number))
        with pytest.raises(Killed):
            world.run()
        assert_same_end(world, world.run(), calm, expected)
        # at most the trial that was running is launched again
        again = len(world.bench.launched) - len(calm.bench.launched)
        assert again in (0, 1), number


SCRIPTS = {
    "keep": by_seqs({}),
    "carries": by_seqs({16: Dials(carries=2)}),
    "some fail": by_seqs({8: Dials(crash_at_replay=4), 32: Dials(late_plays=3)}),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_job_survives_several_kills(name: str) -> None:
    script: Script = SCRIPTS[name]
    spec = spec_with(sampler="advisor", launches=5, rounds=1)
    calm = World(script, spec)
    expected = calm.run()
    rng = random.Random(name)
    for _ in range(2):
        kills = rng.sample(range(len(calm.deeds)), 4)
        world = World(script, spec, tap=Killer(*kills))
        assert_same_end(world, run_to_the_end(world), calm, expected)


class DiesAfterEachTrial:
    """A tap that ends the process before whatever follows the closing of a trial."""

    def __init__(self) -> None:
        self._closed = False
        self.deaths = 0

    def __call__(self, deed: str, detail: object) -> None:
        if self._closed:
            self._closed = False
            self.deaths += 1
            raise Killed(f"before {deed}")
        self._closed = deed == "close"


@pytest.mark.parametrize("sampler", list(SamplerName))
def test_a_process_for_each_trial_launches_what_one_alone_would(sampler: str) -> None:
    """Its trial is written down when it dies, and the searcher has not heard of it."""
    taken = failure(Reason.PORT_TAKEN, "the port is taken")
    table = {8: Dials(start=taken), 16: Dials(carries=2), 32: Dials(start=failure())}
    spec = spec_with(sampler=sampler, launches=6, rounds=1)
    calm = World(by_seqs(table), spec)
    expected = calm.run()
    dying = DiesAfterEachTrial()
    world = World(by_seqs(table), spec, tap=dying)
    assert_same_end(world, run_to_the_end(world, lives=30), calm, expected)
    assert world.bench.launched == calm.bench.launched
    assert dying.deaths == len(calm.trials)
    assert expected.search_launches == 6


class Fickle:
    """Implements `tune.ports.Searcher`: has two settings tried, and after a restart a third."""

    why_ended = "nothing else is promising"

    def __init__(self, *values: int) -> None:
        self._left = list(values)

    def ask(self) -> Proposal | None:
        return Proposal(seqs_of(self._left[0]), "fickle") if self._left else None

    def simpler(self, setting: Setting, baseline: Setting) -> None:
        return None

    def resume(self, proposal: Proposal) -> None:
        self._left.remove(int(proposal.setting.get(SEQS) or 0))

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        value = int(proposal.setting.get(SEQS) or 0)
        self._left = [each for each in self._left if each != value]


class FickleWorld(World):
    lives = 0

    def searcher(self) -> Searcher:
        self.lives += 1
        return Fickle(8, 16) if self.lives == 1 else Fickle(8, 16, 32)


def test_a_finalist_is_fixed_once_a_window_was_used() -> None:
    """What the search would like to try after a restart may be better: another job's windows tell
    of that."""
    script = by_seqs({16: Dials(carries=2), 32: Dials(carries=3)})
    spec = spec_with(launches=9, rounds=2)
    calm = FickleWorld(script, spec)
    expected = calm.run()
    assert expected.diff == ("--max-num-seqs 256 -> 16",)
    first = [deed for deed, _ in calm.deeds].index("spend")
    for number in range(first + 2, len(calm.deeds), 7):
        world = FickleWorld(script, spec, tap=Killer(number))
        advice = run_to_the_end(world)
        assert seqs(world.of(Phase.SEARCH)) == [8, 16]
        assert advice.outcome is AdviceOutcome.RECOMMENDED
        assert advice.diff == expected.diff
        assert set(map(str, seqs(world.of(Phase.CONFIRM)))) == {str(BASELINE), "16"}
        assert "The search had ended before this job was resumed" in advice.reasons


def test_seven_of_ten_launches_before_a_restart_leave_three() -> None:
    """The budget is what the ledger counts, not what this process did."""
    spec = spec_with(launches=4)
    calm = World(by_seqs({}), spec)
    calm.run()
    third = [n for n, (deed, _) in enumerate(calm.deeds) if deed == "open"][3]
    world = World(by_seqs({}), spec, tap=Killer(third))
    with pytest.raises(Killed):
        world.run()
    assert len(world.trials) == 3
    world.run()
    assert len(world.of(Phase.BASELINE)) + len(world.of(Phase.SEARCH)) == 4
    assert seqs(world.of(Phase.SEARCH)) == [8, 16, 32]


def test_an_interrupted_launch_is_run_again_once_and_is_not_counted() -> None:
    spec = spec_with(launches=3)
    calm = World(by_seqs({}), spec)
    expected = calm.run()
    launches = [n for n, (deed, _) in enumerate(calm.deeds) if deed == "launch"]
    world = World(by_seqs({}), spec, tap=Killer(launches[1] + 3))
    advice = run_to_the_end(world)
    states = [trial.result.state for trial in world.trials[:4]]
    assert states == ["measured", "interrupted", "measured", "measured"]
    assert seqs(world.of(Phase.SEARCH)) == [8, 8, 16]
    assert (advice.search_launches, advice.replays) == (3, expected.replays)


@pytest.mark.parametrize(
    "cut", [asyncio.CancelledError, KeyboardInterrupt, EngineError("no room for its log")]
)
def test_a_launch_that_is_cut_off_in_order_is_closed_at_once(cut: BaseException) -> None:
    """Nobody has to come and claim the job before its rows tell the truth."""
    cuts = [cut]

    def tap(deed: str, detail: object) -> None:
        if deed == "replay" and cuts:
            raise cuts.pop()

    world = World(by_seqs({}), spec_with(launches=2), tap=tap)
    with pytest.raises((asyncio.CancelledError, KeyboardInterrupt, EngineError)):
        world.run()
    assert [trial.result.state for trial in world.trials] == [TrialState.INTERRUPTED]
    world.run()
    states = [trial.result.state for trial in world.trials[:3]]
    assert states == ["interrupted", "measured", "measured"]


def test_what_cut_a_launch_off_is_told_though_its_row_cannot_be_closed() -> None:
    def tap(deed: str, detail: object) -> None:
        if deed in ("replay", "close"):
            raise LedgerError(f"no room to {deed}")

    world = World(by_seqs({}), spec_with(launches=2), tap=tap)
    with pytest.raises(LedgerError, match="no room to replay"):
        world.run()


def test_a_done_job_is_not_run_again_by_a_late_process() -> None:
    """Whoever still holds a conductor gets an error from the ledger, never a second advice."""
    world = World(by_seqs({}), spec_with(launches=1))
    world.run()
    before = world.trials
    with pytest.raises(Exception, match="is done"):
        world.run()
    assert world.trials == before


def test_time_spent_before_a_restart_counts_and_confirmation_does_not() -> None:
    """Each ledger call takes a second, so a launch takes a second from open to close."""
    spec = spec_with(launches=50, time_budget_s=3.0)
    calm = World(by_seqs({16: Dials(carries=2)}), spec)
    expected = calm.run()
    assert expected.search_launches == 3
    assert "The search ended after 3 s, its time budget is 3 s" in expected.reasons
    confirming = [n for n, (deed, _) in enumerate(calm.deeds) if deed == "spend"]
    world = World(by_seqs({16: Dials(carries=2)}), spec, tap=Killer(confirming[2]))
    assert run_to_the_end(world) == expected


@pytest.mark.parametrize("at", range(8, 40, 4))
def test_what_was_stopped_early_stays_so(at: int) -> None:
    spec = spec_with(*RELATIVE, launches=3, rounds=1, multiples=(1.0, 3.0), sampler="random")
    script = by_seqs({BASELINE: Dials(1000)}, Dials(400))
    calm, world = World(script, spec), World(script, spec, tap=Killer(at))
    expected = calm.run()
    assert_same_end(world, run_to_the_end(world), calm, expected)
    stopped = [m for t in world.of(Phase.SEARCH) for m in t.result.measurements if m.stopped]
    assert 3.0 in {m.multiple for m in stopped}
    assert {m.verdict for m in stopped} == {Verdict.MISSED}
    assert any("stopped early" in reason for reason in expected.reasons)
