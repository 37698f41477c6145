"""How near a setting is to running out of memory."""

import pytest

from advisor.advice.choose import candidates
from advisor.advice.memory import OUT_OF_MEMORY, is_at_edge, memory_line, memory_margin
from advisor.terms.job import Trial
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.advice.examples import MET, SPEC, broken, measurement, setting, trial


def at(share: float, tokens: int = 2048, variant: str | None = None, model: str = "m") -> Setting:
    flags = {"gpu_memory_utilization": share, "max_num_batched_tokens": tokens}
    return Setting.of(model, flags, tuple(flags), variant)


def ran(number: int, of: Setting) -> Trial:
    return trial(number, measurement(MET), of=of)


def short(number: int, of: Setting, reason: Reason = Reason.OOM_GRAPH_CAPTURE) -> Trial:
    return trial(number, of=of, failure=broken(reason))


def test_the_highest_value_that_works_below_one_that_fails_has_no_margin() -> None:
    trials = [ran(1, at(0.9)), ran(2, at(0.97)), short(3, at(0.98))]
    assert is_at_edge(at(0.97), trials)
    assert memory_line(at(0.97), trials) == (
        "Memory: --gpu-memory-utilization 0.97 is the highest value that was seen to work, memory "
        "ran out at 0.98 (trial 3, oom_graph_capture); how much room lies between is not known, "
        "and nothing lower was measured as good"
    )
    assert not is_at_edge(at(0.9), trials)
    assert memory_line(at(0.9), trials) == (
        "Memory: --gpu-memory-utilization 0.9 is below 0.97, which worked too; memory ran out at "
        "0.98 (trial 3, oom_graph_capture)"
    )


def test_out_of_memory_at_the_very_value_leaves_no_margin_whatever_works_above() -> None:
    trials = [ran(1, at(0.9)), ran(2, at(0.95)), short(3, at(0.9, 8192), Reason.OOM_UNDER_LOAD)]
    assert memory_line(at(0.9), trials) == (
        "Memory: --gpu-memory-utilization 0.9 has no margin: memory ran out at 0.9 (trial 3, "
        "oom_under_load), and nothing lower was measured as good"
    )


def test_where_nothing_ran_out_the_share_that_is_left_is_told() -> None:
    assert memory_line(at(0.9), [ran(1, at(0.9))]) == (
        "Memory: --gpu-memory-utilization 0.9 leaves 10 % of it free, and no launch like it ran "
        "out of memory"
    )
    assert memory_line(setting(8), [ran(1, at(0.9))]) is None


@pytest.mark.parametrize("reason", list(Reason))
def test_only_what_ran_out_of_memory_counts(reason: Reason) -> None:
    trials = [ran(1, at(0.9)), short(2, at(0.95), reason)]
    assert is_at_edge(at(0.9), trials) is (reason in OUT_OF_MEMORY)


@pytest.mark.parametrize(
    ("failed", "counts"),
    [
        (at(0.95, 2048), True),
        (at(0.95, 1024), True),
        # more batched tokens may be what it lacked the memory for
        (at(0.95, 8192), False),
        (at(0.95, variant="fp8"), False),
        (at(0.95, model="other"), False),
        (at(0.85), False),
        (setting(8), False),
    ],
)
def test_which_launches_say_something_of_another(failed: Setting, counts: bool) -> None:
    assert is_at_edge(at(0.9), [ran(1, at(0.9)), short(2, failed)]) is counts


def test_what_worked_higher_counts_only_with_as_many_batched_tokens() -> None:
    for tokens, edge in ((2048, False), (4096, False), (1024, True)):
        trials = [ran(1, at(0.9)), ran(2, at(0.93, tokens)), short(3, at(0.95))]
        assert is_at_edge(at(0.9), trials) is edge


def test_the_nearest_failure_is_named() -> None:
    trials = [short(1, at(0.98)), short(2, at(0.95)), ran(3, at(0.9))]
    margin = memory_margin(at(0.9), trials)
    assert margin is not None
    assert margin.failed is trials[1]
    assert (margin.share, margin.worked) == (0.9, 0.9)


def test_of_equals_the_one_with_a_margin_is_confirmed_first() -> None:
    edge, below = ran(1, at(0.97)), ran(2, at(0.9))
    baseline = at(0.5)
    assert [t.number for t in candidates([edge, below], SPEC, baseline)] == [1, 2]
    found = candidates([edge, below, short(3, at(0.98))], SPEC, baseline)
    assert [t.number for t in found] == [2, 1]


def test_a_margin_is_not_bought_with_load() -> None:
    edge = trial(1, measurement(MET), measurement(MET, 2.0), of=at(0.97))
    below = ran(2, at(0.9))
    found = candidates([edge, below, short(3, at(0.98))], SPEC, at(0.5))
    assert [t.number for t in found] == [1, 2]
