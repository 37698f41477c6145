"""How long requests wait to be scheduled: what a real server tells as queue time."""

import numpy as np
import pytest

from advisor.sim.cost import INGEST_NS
from advisor.terms.profile import PlannedRequest
from tests.unit.sim.loads import SECOND, at_once, engine, gaps_ms, play, poisson, ttft_ms


@pytest.mark.parametrize("compiled", [True, False])
def test_a_request_that_finds_an_idle_server_waits_for_nothing(compiled: bool) -> None:
    apart = [PlannedRequest(n * 20 * SECOND, 500, 20, (), True) for n in range(3)]
    assert play(apart, engine(), compiled=compiled).facts.queue_time_s == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_who_comes_second_waits_until_the_first_has_ended(compiled: bool) -> None:
    run = play(at_once(2, 500, 300), engine(max_num_seqs=1), compiled=compiled)
    first_ends_s = (run.traces.end_ns.min() - INGEST_NS) / 1e9
    assert run.facts.queue_time_s == pytest.approx(first_ends_s, rel=0.02)


def test_a_preempted_request_has_waited_once() -> None:
    """Its second admission is no wait for the first step."""
    crowded = play(at_once(40, 1500, 400), engine("rtx-4090", gpu_memory_utilization=0.85))
    assert crowded.facts.preemptions
    assert crowded.facts.queue_time_s is not None
    assert crowded.facts.queue_time_s < ttft_ms(crowded).sum() / 1e3


def test_sums_and_counts_are_those_of_all_requests() -> None:
    run = play(poisson(5, 40, 500, 40), engine())
    facts = run.facts
    assert facts.ttft_count == len(run.traces)
    assert facts.ttft_s_sum == pytest.approx(ttft_ms(run).sum() / 1e3)
    assert facts.itl_count == len(gaps_ms(run))
    assert facts.itl_s_sum == pytest.approx(gaps_ms(run).sum() / 1e3)


def test_a_replay_that_serves_nothing_counts_nothing() -> None:
    facts = play(at_once(2, 9000, 10), engine()).facts
    assert (facts.ttft_count, facts.ttft_s_sum, facts.queue_time_s) == (0, 0, 0)
    assert np.isfinite(facts.itl_s_sum or 0.0)
