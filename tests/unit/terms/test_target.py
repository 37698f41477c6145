"""Reading and writing targets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.terms.errors import TargetError
from advisor.terms.target import DEFAULT_ERRORS, Metric, Target, Unit, parse_target

LATENCIES = [metric for metric in Metric if metric is not Metric.ERRORS]


@pytest.mark.parametrize(
    ("text", "metric", "percentile", "limit", "unit"),
    [
        ("ttft:p95<=1000ms", Metric.TTFT, 95.0, 1000.0, Unit.MS),
        (" ITL : P99.9 <= 0.2 S ", Metric.ITL, 99.9, 0.2, Unit.S),
        ("token_itl:p50<=12.5ms", Metric.TOKEN_ITL, 50.0, 12.5, Unit.MS),
        ("tpot:p99<=0.6x", Metric.TPOT, 99.0, 0.6, Unit.RATIO),
        ("ttft:p95<=1e3ms", Metric.TTFT, 95.0, 1000.0, Unit.MS),
        ("ttft:p95<=1.5e-1s", Metric.TTFT, 95.0, 0.15, Unit.S),
        ("errors<=0.1%", Metric.ERRORS, None, 0.1, Unit.PERCENT),
        ("errors<=0%", Metric.ERRORS, None, 0.0, Unit.PERCENT),
    ],
)
def test_targets_are_read(
    text: str, metric: Metric, percentile: float | None, limit: float, unit: Unit
) -> None:
    assert parse_target(text) == Target(metric, percentile, limit, unit)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected e.g. 'ttft:p95<=1000ms'"),
        ("ttft:p95<1000ms", "expected e.g."),
        ("ttft:p95>=1000ms", "expected e.g."),
        ("ttft:p95<=nanms", "expected e.g."),
        ("latency:p95<=1s", "unknown metric 'latency'; one of ttft, itl"),
        ("ttft<=1s", "ttft needs a percentile, e.g. ttft:p95"),
        ("ttft:p95<=1", "the limit has no unit; accepted for ttft: ms, s, x"),
        ("ttft:p95<=1us", "unknown unit 'us'"),
        ("ttft:p95<=5%", "unknown unit '%'"),
        ("errors<=5ms", "unknown unit 'ms'; accepted for errors: %"),
        ("errors:p95<=5%", "takes no percentile"),
        ("errors<=100%", "must be below 100%"),
        ("ttft:p95<=0ms", "must be above 0"),
        ("ttft:p95<=-3ms", "must be above 0"),
        ("errors<=-1%", "must be above 0"),
        ("ttft:p100<=1s", "from 50 to below 100"),
        ("ttft:p99.99999999999999<=1s", "from 50 to below 100 (p99.9999999 at most)"),
        ("ttft:p95<=99999999999999999999s", "99999999999999999999s must be at most 1e9s"),
        ("ttft:p49.9<=1s", "from 50 to below 100"),
        ("ttft:p9.9.9<=1s", "percentile '9.9.9' is not a number"),
        ("ttft:p95<=1.2.3s", "limit '1.2.3' is not a number"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(TargetError) as error:
        parse_target(text)
    assert str(error.value).startswith(f"target {text!r}: ")
    assert says in str(error.value)


#: Much of it is a target.
ALIKE = st.from_regex(
    r"(ttft|errors|x|)(:p[0-9.]{1,3}|)<=[0-9.e-]{1,6}(ms|s|x|%|)", fullmatch=True
)


@given(st.one_of(ALIKE, st.text()))
def test_any_text_is_a_target_or_one_error(text: str) -> None:
    try:
        target = parse_target(text)
    except TargetError:
        return
    assert parse_target(str(target)) == target


@given(
    st.sampled_from(LATENCIES),
    st.integers(500, 999),
    st.integers(1, 10**9),
    st.sampled_from([Unit.MS, Unit.S, Unit.RATIO]),
)
def test_a_target_reads_back_as_it_was_written(
    metric: Metric, permille: int, milli: int, unit: Unit
) -> None:
    target = Target(metric, permille / 10, milli / 1000, unit)
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "share"),
    [("ttft:p95<=1s", 0.05), ("ttft:p99.9<=1s", 0.001), ("errors<=0.1%", 0.001)],
)
def test_the_allowed_share(text: str, share: float) -> None:
    assert parse_target(text).allowed_share == pytest.approx(share, abs=1e-15)


def test_limits_in_nanoseconds() -> None:
    assert parse_target("ttft:p95<=1.5ms").limit_ns == 1_500_000
    assert parse_target("ttft:p95<=2s").limit_ns == 2_000_000_000
    for text in ("errors<=1%", "ttft:p95<=0.6x"):
        with pytest.raises(ValueError, match="no limit in time"):
            _ = parse_target(text).limit_ns


def test_a_relative_target_becomes_absolute_and_says_what_was_asked() -> None:
    asked = parse_target("itl:p99<=0.6x")
    resolved = asked.resolved(50e6)
    assert asked.is_relative
    assert not resolved.is_relative
    assert resolved == Target(Metric.ITL, 99.0, 30.0, Unit.MS, "itl:p99<=0.6x")


def test_the_default_error_target_can_be_written() -> None:
    assert parse_target(str(DEFAULT_ERRORS)) == DEFAULT_ERRORS
