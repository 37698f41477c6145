"""When a running replay may be ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.codec import from_bytes, to_bytes
from advisor.measure.curves import Curves, curves
from advisor.measure.judge import judge
from advisor.measure.measure import measure
from advisor.measure.stop import Question, known_at, not_stationary
from advisor.terms.outcome import StopReason
from advisor.terms.target import Metric, Target, Verdict, parse_target
from advisor.terms.traces import RequestStatus, Traces
from tests.unit.measure.make import MS, Req, steady, traces

TTFT = parse_target("ttft:p95<=100ms")
ITL = parse_target("itl:p95<=50ms")


def at(whole: Traces, now_ms: float) -> Traces:
    return known_at(whole, round(now_ms * MS))


def reason(
    so_far: Traces, target: Target, windows: int = 1, earlier: Sequence[Curves] = ()
) -> StopReason | None:
    stop = Question((target,), 0.95, windows, None, earlier).stop(so_far)
    return stop.reason if stop else None


def test_what_is_known_of_a_replay_before_its_end() -> None:
    whole = traces(
        [Req(0, [10, 20]), Req(30, [40, 60]), Req(45, [90]), Req(70, [80])], start=0, end=100
    )
    made = at(whole, 50)
    stopped = RequestStatus.STOPPED
    assert made.status.tolist() == [RequestStatus.OK, stopped, stopped, stopped]
    assert (made.end_ns // MS).tolist() == [20, 50, 50, -1]
    assert (made.sent_ns // MS).tolist() == [0, 30, 45, -1]
    assert (made.event_ns // MS).tolist() == [10, 20, 40]
    assert made.event_offsets.tolist() == [0, 2, 3, 3, 3]
    assert at(whole, 90).status.tolist() == [RequestStatus.OK] * 4


def test_hopeless_from_the_start_is_known_before_the_end() -> None:
    slow = steady(600, [500.0])  # all of them, five times the limit, 60 s long
    assert reason(at(slow, 1_000), TTFT) is None
    assert reason(at(slow, 59_000), TTFT) is StopReason.OUT_OF_REACH


def test_what_is_still_to_come_counts_as_perfect() -> None:
    slow = steady(600, [500.0])
    assert reason(at(slow, 50_000), TTFT, windows=12) is None
    done = [curves(slow)] * 2
    assert reason(at(slow, 50_000), TTFT, 5, done) is StopReason.OUT_OF_REACH


def test_a_burst_does_not_stop_a_replay() -> None:
    ttfts = [500.0] * 60 + [20.0] * 540  # a tenth is over, all of it at once, then calm
    assert reason(at(steady(600, ttfts), 30_000), TTFT) is None


def test_open_requests_count_once_they_are_late_for_certain() -> None:
    never = at(traces([Req(i * 100.0, [90_000.0]) for i in range(600)], 0, 60_000), 59_000)
    for limit, late in (("100ms", 588), ("30s", 290), ("60s", 0)):
        found = judge([curves(never)], parse_target(f"ttft:p95<={limit}"), 0.95)
        assert found.share_over == pytest.approx(late / 591, abs=0.005)


def test_failures_and_gaps_are_out_of_reach_too() -> None:
    out = StopReason.OUT_OF_REACH
    failing = at(steady(600, [20.0], fail_every=2), 55_000)
    assert reason(failing, parse_target("errors<=1%")) is out
    assert reason(failing, ITL) is out
    stalling = at(steady(600, [20.0], gap_ms=80.0), 55_000)
    assert reason(stalling, ITL) is out
    assert reason(stalling, parse_target("token_itl:p95<=50ms")) is out
    assert reason(stalling, parse_target("itl:p95<=90ms")) is None
    assert reason(stalling, parse_target("tpot:p95<=1ms")) is out


def test_a_stopped_replay_answers_a_looser_target_with_undecided() -> None:
    cut = curves(at(steady(600, [500.0]), 50_000))
    for limit, verdict in (("100ms", Verdict.MISSED), ("60s", Verdict.UNDECIDED)):
        found = judge([cut], parse_target(f"ttft:p95<={limit}"), 0.95)
        assert found.verdict is verdict
        assert (found.upper, found.share_over_upper) == (np.inf, 1.0)


def test_what_was_all_seen_before_a_stop_can_be_met_by_a_looser_limit() -> None:
    """Every first token came; some requests were given up later."""
    whole = steady(600, [500.0], tokens=400)
    cut = at(whole, 60_500)
    assert (cut.status == RequestStatus.STOPPED).any()
    for limit, verdict in (("100ms", Verdict.MISSED), ("60s", Verdict.MET)):
        asked = parse_target(f"ttft:p95<={limit}")
        found, true = (judge([curves(each)], asked, 0.95) for each in (cut, whole))
        assert found == true
        assert found.verdict is verdict
        assert found.upper is not None
        assert found.upper < np.inf


@pytest.mark.parametrize("limit", ["500ms", "1s", "20s", "100s", "1000s"])
def test_what_still_waited_at_the_stop_is_not_met_by_a_looser_limit(limit: str) -> None:
    """Every request was sent; the last sixth has no first token and waited 1 to 11 s."""
    late = [Req(i * 100.0, [i * 100 + 20.0, 300_000.0]) for i in range(500)]
    late += [Req(i * 100.0, [200_000.0, 300_000.0]) for i in range(500, 600)]
    cut = curves(at(traces(late, 0, 60_000), 61_000))
    for metric in ("ttft", "e2e"):
        found = judge([cut], parse_target(f"{metric}:p95<={limit}"), 0.95)
        assert found.verdict is not Verdict.MET
        assert found.upper == np.inf


def test_few_that_still_waited_leave_the_percentile_below_them() -> None:
    few = [Req(i * 100.0, [i * 100 + 20.0]) for i in range(598)]
    few += [Req(i * 100.0, [200_000.0]) for i in (598, 599)]
    cut = curves(at(traces(few, 0, 60_000), 61_000))
    for limit in ("100ms", "500s"):  # what a tighter limit meets, a looser one does
        found = judge([cut], parse_target(f"ttft:p50<={limit}"), 0.95)
        assert found.verdict is Verdict.MET
        assert found.upper == 20


def test_a_stopped_replay_tells_of_what_was_seen_and_makes_up_for_spared_windows() -> None:
    cut = curves(at(steady(600, [500.0]), 50_000))
    one = measure([cut], [TTFT], 1.0, 0.95)
    three = measure([cut], [TTFT], 1.0, 0.95, windows=3)
    ttft = {found.metric: found for found in one.percentiles}[Metric.TTFT]
    assert 496 <= ttft.samples < 600  # the last ones waited, and have no answer
    assert ttft.p50_ms == pytest.approx(500)
    assert one.stopped
    assert one.goodput_rps == three.goodput_rps == 0
    assert one.output_tokens_per_s == three.output_tokens_per_s > 0
    (alone,), (among,) = one.judgements, three.judgements
    assert alone.samples == among.samples == ttft.samples
    assert alone.share_over == pytest.approx(among.share_over)
    assert alone.share_over_lower is not None
    assert among.share_over_lower is not None
    assert among.share_over_lower < alone.share_over_lower


def test_windows_that_were_not_stopped_are_never_made_up() -> None:
    whole = curves(steady(600, [20.0]))
    assert measure([whole], [TTFT], 1.0, 0.95, windows=3) == measure([whole], [TTFT], 1.0, 0.95)


def test_a_stopped_replay_is_stored_exactly() -> None:
    cut = curves(at(steady(60, [500.0]), 3_000))
    back = from_bytes(to_bytes(cut))
    assert back.stopped
    for metric in Metric:
        for ours, theirs in (
            (cut.by_metric[metric].values, back.by_metric[metric].values),
            (cut.by_metric[metric].starts, back.by_metric[metric].starts),
        ):
            assert ours.tolist() == theirs.tolist()


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
    if reason(at(whole, 40_000 * part), target) is not None:
        assert judge([curves(whole)], target, 0.95).verdict is Verdict.MISSED


def queue(load: float, seed: int, n: int = 600, burst: float = 1.0) -> Traces:
    """One server, a request every 100 ms on average, each served in 100 ms times the load; in a
    fifth of the time they come `burst` times as fast."""
    rng = np.random.default_rng(seed)
    arrival = free = 0.0
    requests = []
    while arrival < n * 100:
        in_burst = arrival // 4_000 % 5 == 0
        arrival += rng.exponential(100) / (burst if in_burst else 1.0)
        free = max(free, arrival) + rng.exponential(100 * load)
        requests.append(Req(arrival, [free, free + 20 * load]))
    return traces(requests, 0, n * 100.0)


@dataclass(frozen=True)
class Pool:
    """What the early stop makes of three windows, and what they are as a whole."""

    stopped: tuple[StopReason, ...]
    cut: Verdict
    whole: Verdict


def pool(load: float, burst: float, target: Target, seed: int) -> Pool:
    windows = [queue(load, 3 * seed + i, n=120, burst=burst) for i in range(3)]
    played, reasons = list[Curves](), list[StopReason]()
    for window in windows:
        question = Question((target,), 0.95, 3, None, tuple(played))
        so_far = known_at(window, window.window_end_ns + question.patience_ns)
        found = question.stop(so_far)
        stop = found.reason if found else None
        played.append(curves(so_far if stop else window))
        reasons += [stop] if stop else []
        if stop is StopReason.OUT_OF_REACH:
            break
    cut = measure(played, [target], 1.0, 0.95, windows=3).verdict
    return Pool(tuple(reasons), cut, judge(list(map(curves, windows)), target, 0.95).verdict)


NEAR = [
    (load, burst, f"ttft:p95<={limit}ms")
    for load, burst, limit in (
        (0.6, 1.0, 300),
        (0.6, 3.0, 1_500),
        (0.8, 1.0, 600),
        (0.8, 3.0, 4_000),
        (0.9, 1.0, 1_500),
        (1.0, 1.0, 1_500),
        (1.1, 1.0, 2_000),
        (1.4, 1.0, 4_000),
    )
]


@pytest.mark.parametrize(("load", "burst", "text"), NEAR)
def test_a_stop_never_changes_what_the_whole_windows_say(
    load: float, burst: float, text: str
) -> None:
    """Near the limit, where some pools are missed and others are not."""
    pools = [pool(load, burst, parse_target(text), seed) for seed in range(40)]
    for each in pools:
        assert each.cut is each.whole
        if StopReason.OUT_OF_REACH in each.stopped:
            assert each.whole is Verdict.MISSED


def test_stops_do_spare_load_near_the_limit() -> None:
    found = [pool(1.0, 1.0, parse_target("ttft:p95<=800ms"), seed) for seed in range(40)]
    reasons = [set(each.stopped) for each in found]
    assert sum(StopReason.OUT_OF_REACH in each for each in reasons) >= 10
    assert any(StopReason.NOT_STATIONARY in each for each in reasons)
    assert not all(reasons)


@pytest.mark.parametrize("seed", range(8))
def test_a_server_that_falls_behind_is_found_and_one_that_keeps_up_is_not(seed: int) -> None:
    behind, busy = queue(1.6, seed), queue(0.8, seed)
    assert not_stationary(at(behind, 40_000), 40_000 * MS, 1_000 * MS, 0.99)
    assert not not_stationary(at(busy, 40_000), 40_000 * MS, 1_000 * MS, 0.99)


def test_within_the_limit_nothing_is_stopped() -> None:
    behind = queue(1.6, 1)
    assert not not_stationary(at(behind, 40_000), 40_000 * MS, 10**6 * MS, 0.99)
    assert not not_stationary(at(behind, 3_000), 3_000 * MS, 1 * MS, 0.99)  # too few to tell


def test_a_stop_says_which_of_the_two_it_is() -> None:
    behind = at(queue(1.6, 1), 60_000)
    far = Question((parse_target("ttft:p50<=9s"),), 0.95, 12).stop(behind)
    assert far is None or far.reason is StopReason.NOT_STATIONARY
    hopeless = Question((TTFT,), 0.95, 1).stop(at(steady(600, [500.0]), 59_000))
    assert str(hopeless) == ("out_of_reach: ttft:p95<=100ms is missed whatever is still to come")
    rising = Question((parse_target("ttft:p95<=5s"),), 0.95, 3).stop(behind)
    assert str(rising) == (
        "not_stationary: requests in flight and TTFT keep rising, beyond ttft:p95<=5s"
    )
