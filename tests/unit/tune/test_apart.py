"""Whether each window by itself shows the difference."""

from collections.abc import Sequence

from advisor.measure.curves import curves
from advisor.terms.job import Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.tune.apart import apart_at
from advisor.tune.confirmation import round_windows
from advisor.tune.ports import Scored
from tests.contract.scripted_bench import Dials, traces
from tests.unit.tune.jobs import SPEC, TARGETS, WINDOWS

Arm = tuple[list[Trial], dict[int, list[Scored]]]
MULTIPLES = (1.0, 1.5)


def arm(first: int, carries: Sequence[float]) -> Arm:
    """A launch for each window, numbered from `first`, which carries so much."""
    trials: list[Trial] = []
    scored: dict[int, list[Scored]] = {}
    windows = round_windows(WINDOWS, SPEC, 0)
    for repeat, (window, most) in enumerate(zip(windows, carries, strict=False)):
        number, of = first + repeat, Setting.of("m", {"max_num_seqs": 8 + first})
        result = TrialResult(TrialState.MEASURED)
        trials.append(Trial(number, Phase.CONFIRM, of, "confirmation", result, 0, repeat))
        dials = Dials(carries=most)
        scored[number] = [
            Scored(window.name, multiple, curves(traces(dials, Plan(window, multiple, 1, 0))))
            for multiple in MULTIPLES
        ]
    return trials, scored


def apart(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, ...]:
    (our_trials, our_scored), (their_trials, their_scored) = arm(0, ours), arm(10, theirs)
    return apart_at(our_trials, their_trials, our_scored | their_scored, TARGETS, SPEC)


def test_apart_where_each_window_shows_it() -> None:
    assert apart([2, 2, 2], [0.5, 0.5, 0.5]) == (1.0, 1.5)
    assert apart([2, 2, 2], [1, 1, 1]) == (1.5,)
    assert apart([1, 1, 1], [0.5, 0.5, 0.5]) == (1.0,)


def test_not_apart_where_one_launch_of_either_does_as_the_other_setting() -> None:
    assert apart([2, 2, 2], [0.5, 0.5, 2]) == ()
    assert apart([2, 0.5, 2], [0.5, 0.5, 0.5]) == ()
    assert apart([1, 2, 2], [0.5, 0.5, 0.5]) == (1.0,)


def test_nor_the_wrong_way_round_nor_without_a_window_in_common() -> None:
    assert apart([0.5, 0.5, 0.5], [2, 2, 2]) == ()
    assert apart([2, 2, 2], []) == ()
