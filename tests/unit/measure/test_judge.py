import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.codec import from_bytes, to_bytes
from advisor.measure.curves import Curves, curves
from advisor.measure.judge import judge
from advisor.terms.measurement import Judgement
from advisor.terms.target import Metric, Target, Unit, Verdict, parse_target
from advisor.terms.traces import RequestStatus
from tests.unit.measure.make import Req, steady, traces


def replays(*each: Sequence[float], n: int = 500) -> list[Curves]:
    return [curves(steady(n, ttfts)) for ttfts in each]


def random_replays(seed: int, n: int = 300, failed: float = 0.0) -> list[Curves]:
    """Three windows of log-normal TTFTs and gaps."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(3):
        requests = []
        for at in np.sort(rng.uniform(0, n * 50, n)):
            first = at + rng.lognormal(4, 0.7)
            if rng.random() < failed:
                requests.append(Req(at, [first], status=RequestStatus.TRUNCATED, output=9))
            else:
                requests.append(Req(at, list(first + np.cumsum(rng.lognormal(2, 0.5, 8)))))
        made.append(curves(traces(requests, 0, n * 50)))
    return made


def target(text: str) -> Target:
    return parse_target(text)


def test_far_inside_is_met_and_far_outside_missed() -> None:
    sample = random_replays(1)  # p95 TTFT about 173 ms, p99 ITL about 24 ms
    for text in ("ttft:p95<=300ms", "itl:p99<=30ms", "tpot:p99<=20ms", "e2e:p50<=1s"):
        assert judge(sample, target(text), 0.95).verdict is Verdict.MET
    for text in ("ttft:p95<=130ms", "itl:p99<=20ms", "tpot:p99<=8ms", "e2e:p50<=90ms"):
        assert judge(sample, target(text), 0.95).verdict is Verdict.MISSED


def test_a_close_limit_is_undecided() -> None:
    sample = random_replays(1)
    for text in ("ttft:p95<=175ms", "itl:p99<=24ms"):
        assert judge(sample, target(text), 0.95).verdict is Verdict.UNDECIDED


def test_shares_percentile_and_counts_are_reported() -> None:
    found = judge(replays([10.0] * 19 + [500.0], n=400), target("ttft:p95<=100ms"), 0.95)
    assert found.share_over == 0.05
    assert found.estimate == 10
    assert (found.samples, found.blocks, found.confidence) == (400, 6, 0.95)
    assert found.verdict is Verdict.UNDECIDED


def test_a_tail_that_differs_from_run_to_run_is_not_met() -> None:
    """p99 TTFT of 533, 741 and 597 ms against a limit of 600: two runs of three looked fine."""
    sample = replays(*([100.0] * 49 + [p99] for p99 in (533, 741, 597)))
    for replay, p99 in zip(sample, (533, 741, 597), strict=True):
        assert judge([replay], target("ttft:p99<=600ms"), 0.95).estimate == p99
    assert judge(sample, target("ttft:p99<=600ms"), 0.95).verdict is not Verdict.MET


@pytest.mark.parametrize("metric", ["ttft", "itl", "token_itl", "tpot", "e2e"])
@pytest.mark.parametrize("percentile", [95, 99])
def test_one_failure_in_ten_is_never_met(metric: str, percentile: int) -> None:
    sample = [curves(steady(500, [20], fail_every=10)) for _ in range(3)]
    found = judge(sample, target(f"{metric}:p{percentile}<=100000s"), 0.95)
    assert found.verdict is Verdict.MISSED
    assert found.estimate == math.inf
    assert found.upper == math.inf


def test_infinite_values_stay_in_order_with_finite_ones() -> None:
    sample = [curves(steady(500, [20], fail_every=50)) for _ in range(3)]
    found = judge(sample, target("ttft:p95<=30ms"), 0.95)
    assert found.verdict is Verdict.MET
    assert found.estimate == found.upper == 20
    assert found.share_over == 0.02
    assert judge(sample, target("ttft:p99<=30ms"), 0.95).estimate == math.inf


def test_no_samples_decide_nothing() -> None:
    single_tokens = curves(traces([Req(at, [at + 5]) for at in range(0, 900, 10)]))
    found = judge([single_tokens], target("itl:p99<=100ms"), 0.95)
    assert found.verdict is Verdict.UNDECIDED
    assert found.samples == found.blocks == 0
    for field in ("estimate", "lower", "upper", "share_over", "share_over_upper"):
        assert getattr(found, field) is None


def test_few_samples_are_never_met() -> None:
    assert judge(replays([5], n=50), target("ttft:p99<=9s"), 0.95).verdict is Verdict.UNDECIDED


def test_a_relative_target_is_refused() -> None:
    with pytest.raises(ValueError, match="must be resolved"):
        judge(replays([5]), Target(Metric.ITL, 99, 0.6, Unit.RATIO), 0.95)


def test_errors_are_judged_in_percent() -> None:
    none = [curves(steady(1000, [20])) for _ in range(3)]
    found = judge(none, target("errors<=0.1%"), 0.95)
    assert found.verdict is Verdict.MET
    assert found.estimate == found.lower == 0
    assert found.upper == pytest.approx((1 - 0.05 ** (1 / 3000)) * 100)
    some = [curves(steady(1000, [20], fail_every=20)) for _ in range(3)]
    found = judge(some, target("errors<=1%"), 0.95)
    assert found.verdict is Verdict.MISSED
    assert found.estimate == 5


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["ttft", "itl", "tpot", "e2e"]),
    st.sampled_from([50, 90, 95, 99]),
    st.floats(0.2, 5),
)
def test_the_verdict_is_the_percentile_bounds_verdict(
    seed: int, metric: str, percentile: int, factor: float
) -> None:
    sample = random_replays(seed, n=60, failed=0.02)
    first = judge(sample, target(f"{metric}:p{percentile}<=60ms"), 0.95)
    assert first.estimate is not None
    limit = 60 if math.isinf(first.estimate) else first.estimate * factor
    found = judge(sample, target(f"{metric}:p{percentile}<={limit:.3f}ms"), 0.95)
    assert_consistent(found)
    # a bound does not depend on the limit it is compared with
    assert (found.lower, found.estimate, found.upper) == (
        first.lower,
        first.estimate,
        first.upper,
    )


def assert_consistent(found: Judgement) -> None:
    limit, allowed = found.target.limit_ns / 1e6, found.target.allowed_share
    assert found.lower is not None
    assert found.estimate is not None
    assert found.upper is not None
    assert found.share_over_lower is not None
    assert found.share_over_upper is not None
    assert found.lower <= found.estimate <= found.upper
    is_met, is_missed = found.verdict is Verdict.MET, found.verdict is Verdict.MISSED
    assert is_met == (found.upper <= limit) == (found.share_over_upper <= allowed)
    assert is_missed == (limit < found.lower) == (found.share_over_lower > allowed)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_looser_limit_never_fares_worse(seed: int) -> None:
    sample = random_replays(seed, n=80)
    order = {Verdict.MISSED: 0, Verdict.UNDECIDED: 1, Verdict.MET: 2}
    verdicts = [
        order[judge(sample, target(f"ttft:p95<={limit}ms"), 0.95).verdict]
        for limit in range(20, 900, 20)
    ]
    assert verdicts == sorted(verdicts)
    assert verdicts[0] == 0


def test_stored_curves_judge_as_traces_do() -> None:
    fresh = random_replays(3, failed=0.01)
    stored = [from_bytes(to_bytes(replay)) for replay in fresh]
    for text in ("ttft:p95<=150ms", "itl:p99<=25ms", "tpot:p50<=8.5ms", "errors<=2%"):
        assert judge(stored, target(text), 0.975) == judge(fresh, target(text), 0.975)


def test_one_burst_widens_the_bound() -> None:
    """The same samples over, once spread and once in one moment of one window."""
    spread, burst = ([20.0] * 500 for _ in range(2))
    spread[::25] = [900.0 + i for i in range(20)]
    burst[100:120] = [900.0 + i for i in range(20)]
    upper = [
        judge(replays(first, [20.0], [20.0]), target("ttft:p95<=100ms"), 0.95).share_over_upper
        for first in (spread, burst)
    ]
    assert upper[0] is not None
    assert upper[1] is not None
    assert upper[1] > 2 * upper[0]
