import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measure.codec import from_bytes, to_bytes
from advisor.measure.curves import (
    BLOCKS_PER_WINDOW,
    Curves,
    _any,
    _whole,
    block_of,
    curves,
    pool,
)
from advisor.measure.definitions import Samples, samples
from advisor.terms.target import Metric
from advisor.terms.traces import RequestStatus
from tests.unit.measure.make import Req, steady, traces


def assert_same(one: Curves, other: Curves) -> None:
    for metric in Metric:
        a, b = one.by_metric[metric], other.by_metric[metric]
        for name in ("values", "starts", "offsets", "own"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
        assert a.owners == b.owners
    for name in ("requests", "window_ns", "output_tokens", "total_tokens"):
        assert getattr(one, name) == getattr(other, name)


@st.composite
def requests(draw: st.DrawFn) -> list[Req]:
    made = []
    for _ in range(draw(st.integers(0, 12))):
        at = draw(st.floats(0, 999))
        steps = draw(st.lists(st.floats(0, 400), max_size=6))
        tokens = draw(st.lists(st.integers(1, 5), min_size=len(steps), max_size=len(steps)))
        made.append(
            Req(
                at,
                list(at + np.cumsum(steps)),
                tokens,
                draw(st.sampled_from([RequestStatus.OK, RequestStatus.TRUNCATED])),
                sum(tokens) + draw(st.integers(0, 3)),
                draw(st.booleans()),
            )
        )
    return made


@settings(deadline=None)
@given(requests())
def test_bytes_round_trip_exactly(made: list[Req]) -> None:
    summary = curves(traces(made))
    assert_same(from_bytes(to_bytes(summary)), summary)


@settings(deadline=None)
@given(requests(), st.sampled_from(list(Metric)), st.floats(0, 2e9))
def test_blocks_hold_every_sample(made: list[Req], metric: Metric, limit: float) -> None:
    replay = traces(made)
    curve, direct = curves(replay).by_metric[metric], samples(metric, replay)
    every = np.repeat(curve.values, np.diff(curve.starts))
    np.testing.assert_array_equal(np.sort(every), np.sort(direct.values))
    block = block_of(direct.moment_ns, replay.window_start_ns, replay.window_end_ns)
    expected = np.bincount(block[direct.values > limit], minlength=BLOCKS_PER_WINDOW)
    over = direct.request[direct.values > limit]
    np.testing.assert_array_equal(curve.over(limit), expected)
    for shown, kept in ((curve.own, direct.request), (curve.exceeding(limit), over)):
        np.testing.assert_array_equal(
            shown, np.bincount(kept, minlength=int(replay.counted.sum()))
        )
    pooled = pool([curves(replay)] * 2, metric)
    ranked = np.sort(np.tile(direct.values, 2))
    assert [pooled.at(rank) for rank in range(len(pooled))] == ranked.tolist()
    if len(pooled):
        assert pooled.share_over(limit) == float((ranked > limit).mean())


def test_slices_are_equal_and_the_drain_is_the_last() -> None:
    moments = np.array([100, 199, 200, 699, 700, 5000], dtype=np.int64)
    last = BLOCKS_PER_WINDOW - 1
    assert block_of(moments, 100, 100 + 100 * BLOCKS_PER_WINDOW).tolist() == [0, 0, 1, 5, 5, last]


def test_tokens_of_the_window_are_those_whose_event_lies_in_it() -> None:
    made = traces(
        [
            # the lead-in: its first token is before the window, its second inside
            Req(0, [50, 150], tokens=[2, 3], counted=False, input_tokens=1000),
            Req(120, [160, 200], prompt_tokens=11),
            # the drain: the second event comes after the window
            Req(900, [950, 1150], input_tokens=20),
        ],
        100,
        1100,
    )
    summary = curves(made)
    assert summary.output_tokens == 3 + 2 + 1
    assert summary.total_tokens == summary.output_tokens + 11 + 20
    assert summary.requests == 2


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(ValueError, match="lasts 0 ns"):
        curves(traces([], 5, 5))


def test_no_replay_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="no replay"):
        pool([], Metric.TTFT)


def test_token_gaps_are_stored_once_when_each_event_has_one_token() -> None:
    single = to_bytes(curves(steady(200, [50, 80, 90], tokens=40)))
    restored = from_bytes(single)
    assert restored.by_metric[Metric.TOKEN_ITL] is restored.by_metric[Metric.ITL]


def test_equal_gaps_of_many_streams_are_held_once() -> None:
    curve = curves(steady(200, [50, 80], tokens=40)).by_metric[Metric.ITL]
    assert len(curve) == 200 * 39
    assert len(curve.values) <= 2 * BLOCKS_PER_WINDOW


def test_more_requests_than_a_short_number_names() -> None:
    summary = curves(steady((1 << 16) + 1, [50]))
    assert summary.by_metric[Metric.TTFT].exceeding(0).tolist() == [1] * summary.requests
    assert_same(from_bytes(to_bytes(summary)), summary)


def test_foreign_and_damaged_bytes_are_refused() -> None:
    data = to_bytes(curves(steady(20, [50])))
    with pytest.raises(ValueError, match="version 9; this program reads version 3"):
        from_bytes(b"\x09" + data[1:])
    with pytest.raises(ValueError, match="no bytes"):
        from_bytes(b"")
    for cut in (3, 40, len(data) // 2):
        with pytest.raises(ValueError, match="damaged"):
            from_bytes(data[:cut])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 10**9 - 1)), max_size=60
    )
)
def test_whole_numbers_are_put_in_the_same_order_as_any(
    drawn: list[tuple[int, int, int]],
) -> None:
    columns = np.array(drawn, dtype=np.int64).reshape(-1, 3).T
    found = Samples(columns[0].astype(np.float64), columns[2], columns[1])
    block = block_of(columns[2], 0, 10**9)
    whole, any_ = _whole(found, block), _any(found, block)
    assert (whole is None) == (not drawn)
    for fast, general in zip(whole or any_, any_, strict=True):
        assert (fast == general).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, 0.5, 2.0**42])
def test_what_is_no_short_whole_number_is_left_to_the_general_order(value: float) -> None:
    found = Samples(np.array([1.0, value]), np.zeros(2, dtype=np.int64), np.arange(2))
    assert _whole(found, np.zeros(2, dtype=np.int64)) is None
    assert _any(found, np.zeros(2, dtype=np.int64))[1].tolist() == sorted([1.0, value])
