"""A change that does not pay is taken back, and what is left is what is confirmed."""

from collections.abc import Callable

import pytest

from advisor.search.knob import Knob
from advisor.search.space import Space
from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Phase
from advisor.terms.setting import Setting
from tests.contract.scripted_bench import Dials, Tap, failure
from tests.unit.tune.jobs import BASELINE, SEQS, World, spec_with
from tests.unit.tune.test_restart import Killer, assert_same_end, run_to_the_end

INTERVAL = "stream_interval"
#: The current interval is none of those searched.
SPACE = Space((Knob.of(SEQS, [16]), Knob.of(INTERVAL, [2, 4])))
FIXED = {INTERVAL: 1}


def world(
    script: Callable[[int, int], Dials], launches: int = 9, tap: Tap = lambda deed, detail: None
) -> World:
    """`script` by max_num_seqs and stream_interval in force."""

    def by_both(setting: Setting) -> Dials:
        return script(int(setting.get(SEQS) or BASELINE), int(setting.get(INTERVAL) or 0))

    return World(by_both, spec_with(launches=launches), space=SPACE, fixed=FIXED, tap=tap)


def smaller(job: World) -> list[tuple[object, object]]:
    """What was tried in place of the search's best."""
    return [
        (t.setting.get(SEQS), t.setting.get(INTERVAL))
        for t in job.trials
        if t.origin == "smaller change"
    ]


def test_a_flag_that_gains_nothing_is_put_back() -> None:
    job = world(lambda seqs, _: Dials(carries=2 if seqs == 16 else 1))
    advice = job.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert advice.diff == ("--max-num-seqs 256 -> 16",)
    assert smaller(job) == [(BASELINE, 2), (16, 1)]
    confirmed = {t.setting.get(INTERVAL) for t in job.trials if t.phase is Phase.CONFIRM}
    assert confirmed == {1}


def test_a_flag_that_pays_stays() -> None:
    job = world(lambda seqs, interval: Dials(carries=2 if (seqs, interval) == (16, 2) else 1))
    advice = job.run()
    assert advice.diff == ("--max-num-seqs 256 -> 16", "--stream-interval 1 -> 2")
    assert smaller(job) == [(BASELINE, 2), (16, 1)]


def test_a_flag_without_which_it_does_not_run_stays() -> None:
    def script(seqs: int, interval: int) -> Dials:
        if (seqs, interval) == (16, 1):
            return Dials(start=failure())
        return Dials(carries=2 if seqs == 16 else 1)

    assert "--stream-interval 1 -> 2" in world(script).run().diff


@pytest.mark.parametrize(("launches", "tried"), [(3, 0), (4, 1), (5, 2), (9, 2)])
def test_only_launches_that_the_search_left_are_spent(launches: int, tried: int) -> None:
    job = world(lambda seqs, _: Dials(carries=2 if seqs == 16 else 1), launches)
    advice = job.run()
    assert len(smaller(job)) == tried
    assert advice.search_launches == 3 + tried


def test_where_nothing_gains_nothing_is_put_back() -> None:
    job = world(lambda *_: Dials())
    assert job.run().outcome is not AdviceOutcome.RECOMMENDED
    assert smaller(job) == []


def test_a_kill_after_the_search_changes_nothing() -> None:
    """Nor is the search taken up again by what the smaller changes taught."""

    def play(tap: Tap) -> World:
        return world(lambda seqs, _: Dials(carries=2 if seqs == 16 else 1), tap=tap)

    calm = play(Killer())
    expected = calm.run()
    deeds = [deed for deed, _ in calm.deeds]
    opened = [n for n, deed in enumerate(deeds) if deed == "open"]
    for number in range(opened[3] - 2, deeds.index("spend") + 4, 3):
        job = play(Killer(number))
        assert_same_end(job, run_to_the_end(job), calm, expected)
