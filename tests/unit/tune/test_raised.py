"""Throughput, goodput and cost, window against window, and whole jobs that raise them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from advisor.advice.confirm import Raised
from advisor.measure.curves import curves
from advisor.search.knob import Knob
from advisor.search.space import Space
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Objective, Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.tune.confirmation import round_windows
from advisor.tune.ports import Scored
from advisor.tune.raised import raised
from tests.contract.scripted_bench import Dials, traces
from tests.unit.tune.jobs import SPEC, TARGETS, WINDOWS, World, spec_with

TENSOR = "tensor_parallel_size"


Arm = tuple[Sequence[Trial], dict[int, list[Scored]]]


def arm(first: int, gpus: int, tokens: int, dials: Dials, multiple: float = 1.0) -> Arm:
    """Three launches, numbered from `first`, on the windows of round 0."""
    of = Setting.of("m", {TENSOR: gpus})
    trials: list[Trial] = []
    scored: dict[int, list[Scored]] = {}
    for repeat, window in enumerate(round_windows(WINDOWS, SPEC, 0)):
        number, result = first + repeat, TrialResult(TrialState.MEASURED)
        trials.append(Trial(number, Phase.CONFIRM, of, "confirmation", result, 0, repeat))
        played = curves(traces(dials, Plan(window, multiple, 1, 0), tokens))
        scored[number] = [Scored(window.name, multiple, played)]
    return trials, scored


def held(objective: Objective, ours: Arm, theirs: Arm) -> Raised | None:
    spec = replace(SPEC, objective=objective)
    return raised(ours[0], theirs[0], {**ours[1], **theirs[1]}, TARGETS, spec, 0.95)


def ratio(found: Raised | None) -> float:
    assert found is not None
    assert found.comparison is not None
    assert found.comparison.pairs == 3
    return found.comparison.ratio


def test_throughput_is_the_output_tokens_of_each_window() -> None:
    found = held(Objective.THROUGHPUT, arm(0, 1, 10, Dials()), arm(3, 1, 5, Dials()))
    assert ratio(found) == pytest.approx(2, rel=0.01)


def test_goodput_counts_requests_that_meet_the_targets() -> None:
    late = arm(3, 1, 5, Dials(slow_share=0.5))
    found = held(Objective.GOODPUT, arm(0, 1, 5, Dials()), late)
    assert ratio(found) == pytest.approx(2, rel=0.01)


def test_rates_are_those_of_the_jobs_load() -> None:
    ours, theirs = (arm(first, 1, 5, Dials(), 2.0) for first in (0, 3))
    found = held(Objective.THROUGHPUT, ours, theirs)
    assert found == Raised(Objective.THROUGHPUT, None)


def test_cost_is_no_rate() -> None:
    found = held(Objective.COST, arm(0, 1, 5, Dials()), arm(3, 4, 5, Dials()))
    assert found == Raised(Objective.COST, None)


@pytest.mark.parametrize("objective", [Objective.HEADROOM, Objective.LATENCY])
def test_where_latencies_decide_nothing_else_is_compared(objective: Objective) -> None:
    assert held(objective, arm(0, 1, 5, Dials()), arm(3, 1, 5, Dials())) is None


def test_a_window_that_one_of_them_lacks_is_no_pair() -> None:
    ours, theirs = arm(0, 1, 5, Dials()), arm(3, 1, 5, Dials())
    theirs[1].pop(4)
    assert held(Objective.GOODPUT, ours, theirs) == Raised(Objective.GOODPUT, None)


SPACE = Space((Knob.of(TENSOR, [1, 2, 4]),))


def by_gpus(carries: dict[int, float]) -> World:
    def script(setting: Setting) -> Dials:
        return Dials(carries=carries[int(setting.get(TENSOR) or 1)])

    spec = spec_with(objective=Objective.COST, gpu_price=2.0)
    return World(script, spec, SPACE, fixed={TENSOR: 2})


def test_half_the_gpus_for_the_same_load_are_recommended() -> None:
    world = by_gpus({1: 1.5, 2: 1.5, 4: 3.0})
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.diff == ("--tensor-parallel-size 2 -> 1",)
    assert advice.reasons[0].endswith(
        "it carries 1.5x the recorded load on 1 GPU, where the baseline misses at 3x on 2 GPUs"
    )
    assert advice.choice is not None
    assert advice.baseline is not None
    ours, theirs = advice.choice.cost, advice.baseline.cost
    assert ours is not None
    assert theirs is not None
    assert (ours.gpus, theirs.gpus) == (1, 2)
    assert ours.multiple == theirs.multiple == 1.5
    assert theirs.gpu_hours_per_mtok == pytest.approx(2 * ours.gpu_hours_per_mtok, rel=0.02)
    assert ours.money_per_mtok == pytest.approx(2.0 * ours.gpu_hours_per_mtok)


def test_fewer_gpus_need_not_carry_what_more_of_them_do() -> None:
    """1.5 on one GPU is cheaper than 2 on two, and dearer than 3.5."""
    world = by_gpus({1: 1.5, 2: 2.0, 4: 0.5})
    advice = world.run()
    assert advice.diff == ("--tensor-parallel-size 2 -> 1",)
    confirmed = {t.setting.gpus: t.result.measurements for t in world.of(Phase.CONFIRM)}
    assert {n: [m.multiple for m in found] for n, found in confirmed.items()} == {
        1: [1.0, 1.5],
        2: [1.0, 3.0],
    }
    assert by_gpus({1: 1.5, 2: 3.5, 4: 0.5}).run().outcome is AdviceOutcome.KEEP_CURRENT


def test_twice_the_gpus_for_twice_the_load_are_not() -> None:
    world = by_gpus({1: 0.5, 2: 1.0, 4: 2.0})
    assert world.run().outcome is AdviceOutcome.KEEP_CURRENT


@pytest.mark.parametrize("objective", [Objective.THROUGHPUT, Objective.GOODPUT])
def test_a_server_that_keeps_up_has_no_more_to_gain(objective: Objective) -> None:
    """Both serve all that comes, so neither rate differs, whatever the latencies."""

    def script(setting: Setting) -> Dials:
        return Dials(100 if setting.get(TENSOR) == 4 else 200, 10)

    spec = spec_with(objective=objective)
    advice = World(script, spec, SPACE, fixed={TENSOR: 2}).run()
    assert advice.outcome is AdviceOutcome.KEEP_CURRENT
