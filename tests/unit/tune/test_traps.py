"""What other tuners fell for, as whole jobs under every sampler: the wrong direction, a metric
that is missing, a crash that scores best, the same setting for ever, and noise taken for gain."""

import numpy as np
import pytest

from advisor.search.knob import Knob
from advisor.search.searcher import SamplerName
from advisor.search.space import Space
from advisor.terms.advice import Advice, AdviceOutcome
from advisor.terms.flags import FlagValue
from advisor.terms.job import JobSpec, Objective, Phase, Proposal, TrialResult
from advisor.terms.outcome import Failure, Reason, TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict
from advisor.tune.ports import Searcher
from tests.contract.scripted_bench import TOKENS, Dials, failure
from tests.unit.tune.jobs import BASELINE, SEQS, SPACE, World, by_seqs, seqs, spec_with

SAMPLERS = list(SamplerName)
#: `gp` knows load multiples alone
FOR_LATENCY = [name for name in SAMPLERS if name is not SamplerName.GP]
SLOW = Dials(carries=0.0)
#: It answers at once, and carries any load.
SPLENDID = Dials(1, 1, carries=9)


def under(
    sampler: str, *, launches: int = 5, objective: Objective = Objective.HEADROOM
) -> JobSpec:
    """With launches for the baseline and the whole Space."""
    return spec_with(sampler=sampler, launches=launches, objective=objective)


def advised(advice: Advice) -> FlagValue | None:
    assert advice.outcome is AdviceOutcome.RECOMMENDED, advice.reasons
    assert advice.choice is not None
    assert advice.choice.confirmed
    return advice.choice.setting.get(SEQS)


def result_of(world: World, value: int) -> TrialResult:
    (trial,) = [t for t in world.of(Phase.SEARCH) if t.setting.get(SEQS) == value]
    return trial.result


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_best_is_what_carries_most(sampler: str) -> None:
    carries = {BASELINE: 0.5, 8: 1.0, 16: 2.0, 32: 1.5, 64: 0.5}
    script = by_seqs({value: Dials(carries=most) for value, most in carries.items()})
    assert advised(World(script, under(sampler)).run()) == 16


@pytest.mark.parametrize("sampler", FOR_LATENCY)
def test_the_best_is_what_takes_least_time(sampler: str) -> None:
    ttft_ms = {BASELINE: 2000, 8: 700, 16: 50, 32: 300, 64: 600}
    script = by_seqs({value: Dials(ttft_ms=ms) for value, ms in ttft_ms.items()})
    assert advised(World(script, under(sampler, objective=Objective.LATENCY)).run()) == 16


def without_gaps(sampler: str, other: Dials) -> World:
    """Setting 8 is splendid, but its answers are one token long: no gap is ever seen of it."""

    def tap(deed: str, detail: object) -> None:
        if deed == "launch" and isinstance(detail, Setting):
            world.bench.tokens = 1 if detail.get(SEQS) == 8 else TOKENS

    table = {BASELINE: Dials(carries=0.5), 8: SPLENDID, 16: other}
    world = World(by_seqs(table, SLOW), under(sampler), tap=tap)
    return world


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_trial_without_a_metric_is_never_the_best(sampler: str) -> None:
    world = without_gaps(sampler, Dials(carries=1.5))
    assert advised(world.run()) == 16
    at_load = result_of(world, 8).at(1.0)
    assert at_load is not None
    by_metric = {str(j.target.metric): j.verdict for j in at_load.judgements}
    assert by_metric["ttft"] is Verdict.MET
    assert by_metric["itl"] is Verdict.UNDECIDED


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_trial_without_a_metric_is_not_advised_where_all_others_miss(sampler: str) -> None:
    advice = without_gaps(sampler, SLOW).run()
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert "ITL p95: no samples, so nothing is proven" in advice.reasons


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_crash_is_never_the_best(sampler: str) -> None:
    """Nor one under load after splendid figures, nor answers that are errors."""
    table = {
        BASELINE: Dials(carries=0.5),
        8: Dials(1, 1, carries=9, start=failure()),
        16: Dials(1, 1, carries=9, crash_above=1.2),
        32: Dials(carries=1.5),
        64: Dials(1, 1, carries=9, failed_share=1.0),
    }
    world = World(by_seqs(table), under(sampler))
    advice = world.run()
    assert advised(advice) == 32
    crashed = result_of(world, 16)
    assert crashed.state is TrialState.INFEASIBLE
    assert crashed.measurements[0].verdict is Verdict.MET
    assert "Settings that did not run: crashed_under_load x1, oom_load x1" in advice.reasons


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_setting_is_launched_twice_however_many_launches_are_left(sampler: str) -> None:
    world = World(by_seqs({}), under(sampler, launches=50))
    advice = world.run()
    assert sorted(map(str, seqs(world.of(Phase.SEARCH)))) == ["16", "32", "64", "8"]
    assert "The search ended because every setting of the Space was tried" in advice.reasons


class Stuck:
    """Implements `tune.ports.Searcher`: whatever it hears, it asks for one setting."""

    why_ended = ""

    def ask(self) -> Proposal:
        return Proposal(Setting.of("m", {SEQS: 8}, (SEQS,)), "stuck")

    def simpler(self, setting: Setting, baseline: Setting) -> None:
        return None

    def resume(self, proposal: Proposal) -> None:
        """It knows nothing of what runs."""

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """It learns nothing."""


class StuckWorld(World):
    def searcher(self) -> Searcher:
        return Stuck()


@pytest.mark.parametrize(
    ("start", "launches"),
    [(None, 7), (failure(), 7), (failure(Reason.PORT_TAKEN, "the port is taken"), 6)],
)
def test_a_searcher_that_asks_for_one_setting_for_ever_ends_the_search(
    start: Failure | None, launches: int
) -> None:
    """With the budget, or earlier where five launches in a row failed by our fault."""
    world = StuckWorld(by_seqs({8: Dials(start=start)}), spec_with(launches=7))
    advice = world.run()
    assert len(world.of(Phase.BASELINE)) + len(world.of(Phase.SEARCH)) == launches
    blocked = advice.outcome is AdviceOutcome.BLOCKED
    assert blocked == (launches == 6)
    assert blocked or "The search ended after 7 launches, its budget" in advice.reasons


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_flat_landscape_keeps_the_current_setting(sampler: str) -> None:
    world = World(by_seqs({}), under(sampler))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
    assert advice.diff == ()
    assert seqs(world.of(Phase.CONFIRM)) == [BASELINE] * 3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_where_nothing_meets_the_nearest_is_named_with_its_gap(sampler: str) -> None:
    world = World(by_seqs({32: Dials(ttft_ms=1300), 8: Dials(ttft_ms=1500)}, SLOW), under(sampler))
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NONE_MEETS
    assert advice.choice is not None
    assert advice.choice.setting.get(SEQS) == 32
    assert not advice.choice.confirmed
    assert any(reason.startswith("TTFT p95 missed: 100.0 %") for reason in advice.reasons)
    assert world.of(Phase.CONFIRM) == []


class Noisy:
    """Settings that differ in nothing, on launches that carry a tenth more or less, around a
    multiple that is tried: half of them meet there by luck, and half miss."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, setting: Setting) -> Dials:
        return Dials(carries=1.5 * float(np.exp(self._rng.normal(0, 0.1))))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("seed", range(4))
def test_noise_larger_than_the_differences_is_no_gain(sampler: str, seed: int) -> None:
    advice = World(Noisy(seed), under(sampler)).run()
    assert advice.outcome in (AdviceOutcome.KEEP_CURRENT, AdviceOutcome.NOT_PROVEN)


@pytest.mark.slow
def test_noise_is_taken_for_a_gain_no_more_often_than_was_promised() -> None:
    """In 5 of 100 jobs, the error that a confidence of 0.95 allows to all their claims."""
    jobs = [World(Noisy(seed), under("grid")).run() for seed in range(100)]
    assert sum(job.outcome is AdviceOutcome.RECOMMENDED for job in jobs) <= 5


INTERVAL = "stream_interval"
TWO_KNOBS = Space((*SPACE.knobs, Knob.of(INTERVAL, [1, 2])))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_knob_that_the_server_ignores_is_not_searched(sampler: str) -> None:
    """All its values lie below the one that runs, so one launch tells of all."""
    spec = under(sampler, launches=20)
    world = World(lambda s: Dials(carries=2 if s.get(INTERVAL) == 2 else 1), spec, TWO_KNOBS)
    world.bench.ignores = {SEQS: BASELINE}
    advice = world.run()
    searched = [t for t in world.of(Phase.SEARCH) if t.origin != "smaller change"]
    assert {t.setting.get(INTERVAL) for t in searched} == {1, 2}
    assert len(searched) == 2
    for trial in searched:
        assert trial.result.launch is not None
        assert len(trial.result.launch.ignored) == 1
    assert advice.outcome is AdviceOutcome.RECOMMENDED
