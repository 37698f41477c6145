"""When a running replay may be ended."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.curves import curves
from advisor.measure.judge import judge
from advisor.measure.stop import not_stationary, out_of_reach
from advisor.terms.target import Verdict, parse_target
from advisor.terms.traces import MISSING, RequestStatus, Traces
from tests.unit.measure.make import MS, Req, steady, traces

TTFT = parse_target("ttft:p95<=100ms")
ITL = parse_target("itl:p95<=50ms")


def at(whole: Traces, now_ms: float) -> Traces:
    """What of a replay has happened by then."""
    now = round(now_ms * MS)
    seen = whole.event_ns <= now
    counts = np.add.reduceat(np.append(seen, False), whole.event_offsets[:-1])
    counts[np.diff(whole.event_offsets) == 0] = 0
    ended = (whole.end_ns != MISSING) & (whole.end_ns <= now)
    return replace(
        whole,
        sent_ns=np.where(whole.planned_ns <= now, whole.sent_ns, MISSING),
        end_ns=np.where(ended, whole.end_ns, MISSING),
        status=np.where(ended, whole.status, RequestStatus.STOPPED).astype(np.uint8),
        event_offsets=np.concatenate(([0], np.cumsum(counts))),
        event_ns=whole.event_ns[seen],
        event_tokens=whole.event_tokens[seen],
    )


def test_hopeless_from_the_start_is_known_before_the_end() -> None:
    slow = steady(600, [500.0])  # all of them, five times the limit, 60 s long
    assert not out_of_reach(at(slow, 1_000), 1_000 * MS, TTFT, 0.95)
    assert out_of_reach(at(slow, 45_000), 45_000 * MS, TTFT, 0.95)


def test_what_is_still_to_come_counts_as_perfect() -> None:
    slow = steady(600, [500.0])
    assert not out_of_reach(at(slow, 45_000), 45_000 * MS, TTFT, 0.95, windows_left=11)
    done = [curves(slow)] * 2
    assert out_of_reach(at(slow, 45_000), 45_000 * MS, TTFT, 0.95, earlier=done, windows_left=2)


def test_a_burst_does_not_stop_a_replay() -> None:
    ttfts = [500.0] * 60 + [20.0] * 540  # a tenth is over, all of it at once, then calm
    assert not out_of_reach(at(steady(600, ttfts), 30_000), 30_000 * MS, TTFT, 0.95)


def test_open_requests_count_once_they_are_late_for_certain() -> None:
    stuck = [Req(i * 100.0, [], output=5, status=RequestStatus.STOPPED) for i in range(600)]
    never = replace(traces(stuck, 0, 60_000), end_ns=np.full(600, MISSING))
    assert out_of_reach(never, 50_000 * MS, TTFT, 0.95)
    assert not out_of_reach(never, 50_000 * MS, parse_target("ttft:p95<=60s"), 0.95)


def test_failures_and_gaps_are_out_of_reach_too() -> None:
    failing = steady(600, [20.0], fail_every=2)
    assert out_of_reach(at(failing, 50_000), 50_000 * MS, parse_target("errors<=1%"), 0.95)
    assert out_of_reach(at(failing, 50_000), 50_000 * MS, ITL, 0.95)
    stalling = steady(600, [20.0], gap_ms=80.0)
    assert out_of_reach(at(stalling, 50_000), 50_000 * MS, ITL, 0.95)
    assert out_of_reach(
        at(stalling, 50_000), 50_000 * MS, parse_target("token_itl:p95<=50ms"), 0.95
    )
    assert not out_of_reach(at(stalling, 50_000), 50_000 * MS, parse_target("itl:p95<=90ms"), 0.95)
    assert not out_of_reach(at(stalling, 50_000), 50_000 * MS, parse_target("tpot:p95<=1ms"), 0.95)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([20.0, 60.0, 150.0, 900.0]), min_size=5, max_size=40),
    st.sampled_from([0.3, 0.6, 0.9]),
    st.sampled_from(["ttft:p95<=100ms", "e2e:p90<=120ms", "itl:p95<=9ms"]),
)
def test_what_was_stopped_would_have_been_missed(
    ttfts: list[float], part: float, text: str
) -> None:
    """The whole replay, with nothing perfect about its rest, is missed as well."""
    whole, target = steady(400, ttfts), parse_target(text)
    now_ms = 40_000 * part
    if out_of_reach(at(whole, now_ms), round(now_ms * MS), target, 0.95):
        found = judge([curves(whole)], target, 0.95)
        assert found.share_over is not None
        assert found.share_over > target.allowed_share
        assert found.verdict is not Verdict.MET


def queue(load: float, seed: int, n: int = 600) -> Traces:
    """One server, a request every 100 ms on average, each served in 100 ms times the load."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(100, n))
    free, requests = 0.0, []
    for arrival, service in zip(arrivals, rng.exponential(100 * load, n), strict=True):
        free = max(free, arrival) + service
        requests.append(Req(arrival, [free]))
    return traces(requests, 0, float(arrivals[-1]))


@pytest.mark.parametrize("seed", range(8))
def test_a_server_that_falls_behind_is_found_and_one_that_keeps_up_is_not(seed: int) -> None:
    behind, busy = queue(1.6, seed), queue(0.8, seed)
    assert not_stationary(at(behind, 40_000), 40_000 * MS, 1_000 * MS, 0.99)
    assert not not_stationary(at(busy, 40_000), 40_000 * MS, 1_000 * MS, 0.99)


def test_within_the_limit_nothing_is_stopped() -> None:
    behind = queue(1.6, 1)
    assert not not_stationary(at(behind, 40_000), 40_000 * MS, 10**6 * MS, 0.99)
    assert not not_stationary(at(behind, 3_000), 3_000 * MS, 1 * MS, 0.99)  # too few to tell
