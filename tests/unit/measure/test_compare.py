import pytest

from advisor.measure.compare import Difference, compare, compare_rates, difference, noise_band
from advisor.measure.curves import Curves, curves
from advisor.terms.measurement import Comparison
from advisor.terms.target import Metric
from tests.unit.measure.make import Req, steady, traces


def pair(ours_ms: float, theirs_ms: float) -> tuple[Curves, Curves]:
    return curves(steady(50, [ours_ms])), curves(steady(50, [theirs_ms]))


def ttft(*ratios: float) -> Comparison | None:
    return compare([pair(100 * ratio, 100) for ratio in ratios], Metric.TTFT, 95, 0.95)


def shown(*ratios: float) -> Difference:
    found = ttft(*ratios)
    assert found is not None
    assert found.lower_ratio <= found.ratio <= found.upper_ratio
    return difference(found)


def test_a_steady_ratio_shows_a_difference() -> None:
    assert shown(0.50, 0.51, 0.49) is Difference.FASTER
    assert shown(1.50, 1.60, 1.55) is Difference.SLOWER


def test_noise_shows_none() -> None:
    assert shown(0.7, 1.3, 0.9) is Difference.NOT_SHOWN
    assert shown(1.0, 1.0, 1.0) is Difference.NOT_SHOWN


def test_the_interval_is_student_t_on_the_logarithm() -> None:
    found = ttft(0.5, 1.0, 2.0)
    assert found is not None
    assert found.ratio == pytest.approx(1)
    # t(0.975, 2) = 4.3027; the logarithms' standard error is log 2 / sqrt 3
    assert found.upper_ratio == pytest.approx(2 ** (4.302653 / 3**0.5), rel=1e-5)
    assert found.lower_ratio == pytest.approx(1 / found.upper_ratio)
    assert found.pairs == 3


def test_two_pairs_claim_nothing() -> None:
    assert ttft(0.5, 0.5) is None


def test_without_a_ratio_there_is_no_claim() -> None:
    failing = curves(steady(50, [10], fail_every=5))
    fine, empty = curves(steady(50, [10])), curves(traces([]))
    for odd in (failing, empty):
        assert compare([(fine, fine), (fine, odd), (fine, fine)], Metric.TTFT, 95, 0.95) is None
    at_once = curves(traces([Req(5, [5])]))
    assert compare([(at_once, fine)] * 3, Metric.TTFT, 95, 0.95) is None


def test_errors_are_not_compared() -> None:
    with pytest.raises(ValueError, match="rate"):
        compare([pair(1, 1)] * 3, Metric.ERRORS, 95, 0.95)


def noise(*ttfts_ms: float) -> float | None:
    launches = [curves(steady(50, [ttft_ms])) for ttft_ms in ttfts_ms]
    return noise_band(launches, Metric.TTFT, 95, 0.95)


def test_the_noise_band_is_what_a_setting_would_show_against_itself() -> None:
    assert noise(100, 100, 100) == pytest.approx(1)
    # the logarithms' standard deviation is log 2; of a difference of two means of three, sqrt 2/3
    assert noise(50, 100, 200) == pytest.approx(2 ** (4.302653 * (2 / 3) ** 0.5), rel=1e-5)


def test_a_noise_band_needs_three_launches_with_a_value() -> None:
    assert noise(100, 110) is None
    failing = curves(steady(50, [10], fail_every=5))
    assert noise_band([failing] * 3, Metric.TTFT, 95, 0.95) is None


def test_rates_are_compared_by_the_same_interval() -> None:
    found, latencies = compare_rates([(50, 100), (100, 100), (200, 100)], 0.95), ttft(0.5, 1, 2)
    assert found is not None
    assert latencies is not None
    assert found.ratio == pytest.approx(1)
    assert found.pairs == 3
    assert found.lower_ratio == pytest.approx(latencies.lower_ratio)
    assert found.upper_ratio == pytest.approx(latencies.upper_ratio)


def test_rates_without_a_ratio_or_a_third_pair_claim_nothing() -> None:
    assert compare_rates([(2.0, 1.0)] * 2, 0.95) is None
    assert compare_rates([(2.0, 1.0), (2.0, 0.0), (2.0, 1.0)], 0.95) is None
    assert compare_rates([(2.0, 1.0), (0.0, 1.0), (2.0, 1.0)], 0.95) is None
