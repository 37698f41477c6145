"""Where the time went, from counters whose sums are known."""

import pytest

from advisor.advice.background import Background, Served
from advisor.advice.spent import queue_share, time_spent
from advisor.terms.job import ServerFacts
from advisor.terms.setting import Setting
from tests.unit.advice.ladders import facts, flags

OURS, THEIRS = flags(tokens=512), flags()


def served(
    setting: Setting, window: str, of: ServerFacts, multiple: float = 1.0, whole: bool = True
) -> Served:
    return Served(setting, window, multiple, of, whole)


def test_means_are_over_all_requests_of_the_windows_that_both_played() -> None:
    background = Background(
        (
            served(OURS, "search-0", facts(queue_s=10, preemptions=2.0)),
            served(OURS, "search-1", facts(queue_s=30, preemptions=1.0)),
            served(OURS, "held-out-0", facts(queue_s=50)),
            served(OURS, "search-0", facts(queue_s=50), multiple=2.0),
            served(THEIRS, "search-0", facts(queue_s=0)),
            served(THEIRS, "search-1", facts(queue_s=0)),
            served(THEIRS, "search-2", facts(queue_s=50), whole=False),
        )
    )
    ours, theirs = time_spent((OURS, THEIRS), 1.0, background)
    assert (ours.setting, ours.replays, ours.multiple) == (OURS, 2, 1.0)
    assert ours.queue_ms == pytest.approx(200)
    assert ours.prefill_ms == pytest.approx(300)
    assert ours.ttft_ms == pytest.approx(500)
    assert ours.decode_ms == pytest.approx(2000)
    assert ours.preemptions == 3
    assert (theirs.setting, theirs.replays, theirs.queue_ms) == (THEIRS, 2, 0)
    assert theirs.prefill_ms == pytest.approx(500)


def test_what_one_replay_does_not_tell_is_not_told() -> None:
    told = facts()
    silent = Background(
        (served(OURS, "a", told), served(OURS, "b", facts(queue_s=None))),
    )
    (spent,) = time_spent((OURS,), 1.0, silent)
    assert (spent.queue_ms, spent.prefill_ms) == (None, None)
    assert spent.ttft_ms == pytest.approx(500)
    (nothing,) = time_spent((OURS,), 1.0, Background((served(OURS, "a", ServerFacts()),)))
    parts = (nothing.queue_ms, nothing.prefill_ms, nothing.ttft_ms, nothing.decode_ms)
    assert (*parts, nothing.preemptions) == (None,) * 5


def test_without_a_window_in_common_nothing_is_compared() -> None:
    apart = Background((served(OURS, "a", facts()), served(THEIRS, "b", facts())))
    assert time_spent((OURS, THEIRS), 1.0, apart) == ()
    assert time_spent((), 1.0, apart) == ()
    assert time_spent((OURS,), 1.0, Background()) == ()


def test_counters_of_other_requests_are_not_divided() -> None:
    assert queue_share([served(OURS, "a", facts(queue_s=60))]) is None
    assert queue_share([served(OURS, "a", facts(queue_s=20))]) == pytest.approx(0.4)
    assert queue_share([]) is None
