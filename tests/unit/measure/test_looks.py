import pytest

from advisor.measure.looks import MOST_LOOKS, Looks, level


def test_the_error_is_split_equally() -> None:
    assert level(0.95, 1) == 0.95
    assert level(0.95, 2) == pytest.approx(0.975)
    assert Looks(0.95).level == 0.95
    assert Looks(0.95, looks=4).level == pytest.approx(0.9875)
    assert Looks(0.9, looks=2, claims=5).level == pytest.approx(0.99)


@pytest.mark.parametrize("looks", [0, MOST_LOOKS + 1])
def test_looks_are_counted(looks: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 4"):
        Looks(0.95, looks=looks)


def test_impossible_levels_are_refused() -> None:
    for confidence in (0.5, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            Looks(confidence)
    with pytest.raises(ValueError, match="claims 0"):
        Looks(0.95, claims=0)
