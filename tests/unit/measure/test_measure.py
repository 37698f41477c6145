import math

import pytest

from advisor.measure.codec import from_bytes, to_bytes
from advisor.measure.curves import curves, pool
from advisor.measure.measure import good_requests, measure, percentiles
from advisor.terms.target import Metric, Target, Verdict, parse_target
from advisor.terms.traces import RequestStatus
from tests.unit.measure.make import Req, steady, traces


def targets(*texts: str) -> list[Target]:
    return [parse_target(text) for text in texts]


def test_rates_are_over_the_windows_time() -> None:
    sample = [curves(steady(100, [20], tokens=4)) for _ in range(3)]  # 10 s each
    found = measure(sample, targets("ttft:p95<=100ms"), 1.5, 0.95)
    assert found.multiple == 1.5
    assert found.output_tokens_per_s == 40
    assert found.total_tokens_per_s == 40 + 10 * 10
    assert found.goodput_rps == 10
    assert (found.error_rate, found.requests, found.replays) == (0, 300, 3)
    assert found.verdict is Verdict.MET


def test_percentiles_of_every_latency_that_has_samples() -> None:
    sample = [curves(traces([Req(at, [at + 5]) for at in range(100)]))]
    found = measure(sample, [], 1.0, 0.95)
    assert [p.metric for p in found.percentiles] == [Metric.TTFT, Metric.E2E]
    assert found.verdict is Verdict.UNDECIDED


def test_failures_reach_into_the_percentiles() -> None:
    found = percentiles(pool([curves(steady(100, [20], fail_every=25))], Metric.TTFT), Metric.TTFT)
    assert found is not None
    assert (found.p50_ms, found.p95_ms, found.p99_ms, found.samples) == (20, 20, math.inf, 100)


def test_goodput_needs_every_target_and_no_failure() -> None:
    replay = curves(
        traces(
            [
                Req(0, [10, 20, 30]),
                Req(100, [900, 910]),  # a late first token
                Req(200, [210, 900]),  # a stall
                Req(300, [310], status=RequestStatus.TRUNCATED, output=2),
                Req(400, [410]),  # one token has no gap to miss by
            ]
        )
    )
    asked = targets("ttft:p95<=100ms", "itl:p99<=50ms", "errors<=1%")
    assert good_requests(replay, asked).tolist() == [True, False, False, False, True]
    assert good_requests(replay, []).tolist() == [True, True, True, False, True]
    assert measure([replay], asked, 1.0, 0.95).goodput_rps == 2


def test_a_request_may_exceed_in_the_allowed_share_of_its_own_gaps() -> None:
    stalled_once = Req(0, [10 * k if k < 20 else 10 * k + 200 for k in range(1, 22)])
    replay = curves(traces([stalled_once]))
    assert good_requests(replay, targets("itl:p95<=50ms")).tolist() == [True]
    assert good_requests(replay, targets("itl:p99<=50ms")).tolist() == [False]


def test_new_targets_are_measured_from_stored_bytes_as_from_traces() -> None:
    fresh = [curves(steady(200, [20, 300, 40], fail_every=40)) for _ in range(3)]
    stored = [from_bytes(to_bytes(replay)) for replay in fresh]
    for asked in (targets("ttft:p95<=250ms", "itl:p99<=11ms"), targets("e2e:p50<=1s")):
        assert measure(stored, asked, 1.0, 0.95) == measure(fresh, asked, 1.0, 0.95)


def test_no_counted_request_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match="no counted request"):
        measure([curves(traces([Req(0, [5], counted=False)]))], [], 1.0, 0.95)
