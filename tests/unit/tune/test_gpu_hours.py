"""GPU-hours of whole jobs, across restarts."""

from dataclasses import replace

import pytest

from tests.contract.scripted_bench import Dials
from tests.unit.tune.jobs import by_seqs, spec_with
from tests.unit.tune.sets import Sets
from tests.unit.tune.test_restart import Killed, Killer

#: Each ledger call takes a second, so on one set a launch takes a second from open to close.
SECONDS = spec_with(launches=50, gpu_hours=6 / 3600)
GAIN = by_seqs({16: Dials(carries=2)})


def test_the_advice_tells_what_all_launches_took() -> None:
    world = Sets(GAIN, replace(SECONDS, gpu_hours=None), gpus=2)
    advice = world.run()
    seconds = sum(trial.elapsed_s or 0 for trial in world.trials)
    assert advice.gpu_hours == pytest.approx(2 * seconds / 3600)
    assert seconds == len(world.trials) > advice.search_launches


def test_without_gpus_there_are_no_gpu_hours() -> None:
    world = Sets(GAIN, spec_with(launches=2), gpus=None)
    assert world.run().gpu_hours is None


def test_the_budget_counts_across_restarts() -> None:
    calm = Sets(GAIN, SECONDS, gpus=2)
    expected = calm.run()
    assert expected.search_launches == 3
    reason = "The search ended after 0.00167 GPU-hours, its budget is 0.00167 GPU-hours"
    assert reason in expected.reasons
    third = [n for n, (deed, _) in enumerate(calm.deeds) if deed == "open"][2]
    world = Sets(GAIN, SECONDS, gpus=2, tap=Killer(third))
    with pytest.raises(Killed):
        world.run()
    assert world.run() == expected


def test_a_check_of_neighbours_counts_every_set() -> None:
    world = Sets(by_seqs({}), spec_with(launches=4, gpus="0;1;2"))
    advice = world.run()
    times = [trial.elapsed_s or 0 for trial in world.trials]
    assert advice.gpu_hours == pytest.approx((sum(times) + 2 * times[1]) / 3600)
