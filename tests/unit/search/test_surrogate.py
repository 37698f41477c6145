import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.search.surrogate import Belief, Model, Seen, believe, likeness

N = 9
PLACES = np.linspace(0, 1, N)[:, None]
SMOOTH = 0.4**2 * likeness(PLACES, 0.4)
BLIND = Model(0.2, True, np.zeros(N), 1.0 + SMOOTH, 0.02)
rows = st.lists(st.tuples(st.integers(0, N - 1), st.floats(-2, 2)), max_size=8)


def foreseeing(mean: np.ndarray) -> Model:
    return Model(0.8, False, mean, 0.3**2 + 0.05**2 * likeness(PLACES, 0.5), 0.02)


@settings(deadline=None)
@given(rows, st.floats(-3, 3))
def test_a_belief_is_a_mixture_with_sane_numbers(
    told: list[tuple[int, float]], level: float
) -> None:
    belief = believe([BLIND, foreseeing(np.linspace(-1, 1, N))], [Seen(*each) for each in told])
    assert belief.weights.sum() == pytest.approx(1)
    assert (belief.weights >= 0).all()
    assert (belief.deviations > 0).all()
    chance = belief.chance_above(level)
    assert ((chance >= 0) & (chance <= 1)).all()
    gain = belief.expected_gain(level)
    assert (gain >= 0).all()
    assert (gain >= belief.mean - level - 1e-9).all()


@settings(deadline=None)
@given(rows)
def test_measuring_never_makes_a_model_less_sure(told: list[tuple[int, float]]) -> None:
    seen = [Seen(*each) for each in told]
    before = believe([BLIND], ()).deviations
    assert (believe([BLIND], seen).deviations <= before + 1e-6).all()


@settings(deadline=None)
@given(rows.filter(bool), st.randoms())
def test_one_model_does_not_care_in_which_order_it_is_told(
    told: list[tuple[int, float]], random: object
) -> None:
    seen = [Seen(*each) for each in told]
    one, other = believe([BLIND], seen), believe([BLIND], seen[::-1])
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-6)


def test_what_was_measured_exactly_is_believed() -> None:
    belief = believe([BLIND, foreseeing(np.zeros(N))], [Seen(2, 0.7), Seen(5, -0.2)])
    np.testing.assert_allclose(belief.mean[[2, 5]], [0.7, -0.2], atol=0.02)
    assert belief.deviations[:, 2].max() < 0.03


def test_a_forecast_that_came_true_is_trusted() -> None:
    right, wrong = np.linspace(-1, 1, N), np.linspace(1, -1, N)
    models = [foreseeing(right), foreseeing(wrong)]
    told = [Seen(row, float(right[row])) for row in (0, 3, 6)]
    weights = believe(models, told).weights
    assert weights[0] > 0.95
    # the first alone says only how fast the machine is
    assert believe(models, told[:1]).weights == pytest.approx([0.5, 0.5])


def test_a_model_keeps_its_least_share_whatever_happens() -> None:
    right = np.linspace(-1, 1, N)
    told = [Seen(row, float(right[row])) for row in range(N)]
    weights = believe([BLIND, foreseeing(right)], told).weights
    assert weights[0] == pytest.approx(0.1, rel=0.02)


def test_a_wrong_forecast_is_outlived_by_the_model_that_has_none() -> None:
    truth, forecast = np.sin(3 * PLACES[:, 0]), -np.sin(3 * PLACES[:, 0])
    told = [Seen(row, float(truth[row])) for row in (0, 2, 4, 6, 8)]
    belief = believe([BLIND, foreseeing(forecast)], told)
    assert int(belief.mean.argmax()) == int(truth.argmax())
    assert belief.weights[0] > 0.9


def test_gain_counts_what_is_unsure_as_well_as_what_is_good() -> None:
    belief = Belief(np.ones(1), np.array([[1.0, 0.9, 0.5]]), np.array([[0.01, 0.2, 0.01]]))
    gain = belief.expected_gain(1.0)
    assert gain[1] > gain[0] > gain[2]
    assert gain[0] == pytest.approx(0.01 / np.sqrt(2 * np.pi), rel=1e-6)


def test_likeness_falls_with_distance() -> None:
    found = likeness(PLACES, 0.5)
    np.testing.assert_allclose(np.diag(found), 1)
    assert (np.diff(found[0]) < 0).all()
    assert np.linalg.eigvalsh(found).min() > -1e-9
