from dataclasses import replace

import numpy as np
import pytest

from advisor.measure.definitions import DEFINITIONS, samples
from advisor.terms.target import Metric
from advisor.terms.traces import MISSING, RequestStatus
from tests.unit.measure.make import MS, Req, traces

INF = float("inf")


def values_ms(metric: Metric, *requests: Req) -> list[float]:
    return [value / MS for value in samples(metric, traces(requests)).values]


def test_every_metric_is_defined_once() -> None:
    assert [definition.metric for definition in DEFINITIONS] == list(Metric)


def test_four_tokens_per_event_every_40_ms() -> None:
    request = Req(0, [100, 140, 180, 220], tokens=[4, 4, 4, 4])
    assert values_ms(Metric.ITL, request) == [40, 40, 40]
    assert values_ms(Metric.TOKEN_ITL, request) == [10] * 12
    assert values_ms(Metric.TPOT, request) == [120 / 15]


FAILED = [s for s in RequestStatus if s not in (RequestStatus.OK, RequestStatus.STOPPED)]


def test_latency_counts_from_the_planned_time() -> None:
    late = Req(100, [400, 450], sent=300)
    assert values_ms(Metric.TTFT, late) == [300]
    assert values_ms(Metric.E2E, late) == [350]


def test_gaps_never_span_two_requests() -> None:
    assert values_ms(Metric.ITL, Req(0, [10, 12]), Req(1, [500]), Req(2, [600, 603])) == [2, 3]


def test_one_token_has_no_pace_and_no_gap() -> None:
    alone = Req(0, [30])
    assert values_ms(Metric.TPOT, alone, Req(0, [10, 14])) == [4]
    assert values_ms(Metric.ITL, alone) == []
    assert values_ms(Metric.TTFT, alone) == [30]


def test_the_lead_in_gives_no_sample() -> None:
    requests = (Req(0, [10, 20], counted=False), Req(100, [115, 130]))
    for metric, expected in ((Metric.TTFT, [15]), (Metric.ITL, [15]), (Metric.E2E, [30])):
        assert values_ms(metric, *requests) == expected
    assert samples(Metric.ITL, traces(requests)).request.tolist() == [0]


@pytest.mark.parametrize("status", FAILED)
def test_a_failed_request_misses_everything(status: RequestStatus) -> None:
    broken = Req(0, [10, 20], status=status, output=5)
    assert values_ms(Metric.TTFT, broken) == [INF]
    assert values_ms(Metric.E2E, broken) == [INF]
    assert values_ms(Metric.TPOT, broken) == [INF]
    assert values_ms(Metric.ITL, broken) == [10, INF, INF, INF]
    assert values_ms(Metric.TOKEN_ITL, broken) == [10, INF, INF, INF]
    assert samples(Metric.ERRORS, traces([broken, Req(5, [6])])).values.tolist() == [1, 0]


def test_a_request_that_was_given_up_is_no_miss_and_shows_what_it_has() -> None:
    made = traces([Req(0, [10, 20], output=5), Req(0, output=5), Req(50, output=5)])
    stopped = np.full(3, RequestStatus.STOPPED, dtype=np.uint8)
    gone, sent = np.array([40 * MS, 40 * MS, MISSING]), np.array([0, 0, MISSING])
    made = replace(made, status=stopped, end_ns=gone, sent_ns=sent)

    def ms(metric: Metric) -> list[float]:
        return [value / MS for value in samples(metric, made).values]

    assert ms(Metric.TTFT) == [10, 40, -INF]  # the second has waited as long as that
    assert ms(Metric.E2E) == [40, 40, -INF]
    assert ms(Metric.TPOT) == [-INF] * 3
    assert ms(Metric.ITL) == [10, *[-INF] * (3 + 4 + 4)]
    assert ms(Metric.ERRORS) == [-INF] * 3


def test_ok_without_a_token_is_no_zero() -> None:
    silent = Req(0, [], output=0)
    assert values_ms(Metric.TTFT, silent) == [INF]
    assert values_ms(Metric.E2E, silent) == [INF]


def test_moments_stay_in_the_window() -> None:
    late = traces([Req(990, [995, 1500])], 0, 1000)
    assert samples(Metric.ITL, late).moment_ns.tolist() == [1000 * MS - 1]
    assert samples(Metric.TTFT, late).moment_ns.tolist() == [990 * MS]


def test_a_failure_without_an_end_belongs_to_its_arrival() -> None:
    made = traces([Req(400, status=RequestStatus.CONNECT, output=2)])
    made.end_ns[:] = MISSING
    assert samples(Metric.ITL, made).moment_ns.tolist() == [400 * MS] * 2


def test_events_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="not in order"):
        samples(Metric.ITL, traces([Req(0, [20, 10])]))


def test_no_requests_give_no_samples() -> None:
    for metric in Metric:
        assert np.size(samples(metric, traces([])).values) == 0
