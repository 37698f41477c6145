"""The default search: a forecast, right or wrong, and what was measured."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution

from advisor.search.greybox import Grid, places
from advisor.search.physics import DRAWS, Expected
from advisor.search.searcher import OptunaSearcher
from advisor.search.space import Space, Variant
from advisor.search.surrogate import Seen, believe
from advisor.terms.job import TrialResult
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from tests.unit.search.trials import FULL, TOKENS, failed, measured, run, searcher, truth

SETTINGS = FULL.settings("m", {})
BEST = max(map(truth, SETTINGS))


class Forecast:
    """Stands for `Physics`: foretells by a formula, learns nothing."""

    def __init__(self, log_headroom: Callable[[Setting], float]) -> None:
        self._of = log_headroom
        self.learned: list[Setting] = []

    def expect(self, settings: Sequence[Setting]) -> Expected:
        factors = np.random.default_rng(0).normal(0, 0.1, DRAWS)
        return Expected(
            np.array([self._of(each) for each in settings]),
            np.tile(factors, (len(settings), 1)),
            np.full(len(settings), 0.98),
        )

    def learn(self, setting: Setting, result: TrialResult) -> None:
        self.learned.append(setting)


def foreseeing(log_headroom: Callable[[Setting], float], seed: int = 0) -> OptunaSearcher:
    search = searcher(seed=seed)
    search.physics = Forecast(log_headroom)  # type: ignore[assignment]
    return search


def answer(setting: Setting) -> TrialResult:
    return measured(truth(setting))


def launches_to(share: float, search: OptunaSearcher) -> float:
    done = run(search, 40, answer)
    hits = [n for n, (p, _) in enumerate(done, 1) if truth(p.setting) >= (1 - share) * BEST]
    return min(hits, default=math.inf)


def test_a_right_forecast_finds_the_best_at_once() -> None:
    assert launches_to(0.0, foreseeing(lambda s: math.log(truth(s)))) == 1


def test_a_forecast_that_is_off_by_a_factor_is_as_good() -> None:
    assert launches_to(0.0, foreseeing(lambda s: math.log(truth(s)) + 0.5)) == 1


def test_a_forecast_that_misses_one_knob_needs_a_few_more() -> None:
    def blind_to_caching(setting: Setting) -> float:
        other = dict(setting.flags) | {"enable_prefix_caching": False}
        return math.log(truth(Setting.of("m", other, variant=setting.variant)))

    assert max(launches_to(0.02, foreseeing(blind_to_caching, seed)) for seed in range(5)) <= 4


@pytest.mark.parametrize("seed", range(3))
def test_a_forecast_of_the_opposite_is_survived(seed: int) -> None:
    opposite = foreseeing(lambda s: -math.log(truth(s)), seed)
    assert launches_to(0.05, opposite) <= 15


@pytest.mark.slow
def test_without_a_forecast_it_beats_chance() -> None:
    def mean(sampler: str) -> float:
        found = [launches_to(0.05, searcher(sampler=sampler, seed=n)) for n in range(8)]
        return float(np.mean(np.minimum(found, 40)))

    assert mean("gp") < mean("random")
    assert mean("advisor") < mean("random")


def test_what_gains_nothing_more_ends_the_search_and_says_so() -> None:
    search = foreseeing(lambda s: math.log(truth(s)))
    done = run(search, 112, answer)
    assert 3 <= len(done) < 30
    assert search.why_ended == "no setting left is expected to gain more than 0.5%"


def test_a_flat_landscape_is_left_before_half_of_it_was_tried() -> None:
    search = foreseeing(lambda _: 0.0)
    assert len(run(search, 112, lambda _: measured(1.0))) < 56


def test_the_one_setting_that_meets_is_found_where_all_others_miss() -> None:
    corner = max(SETTINGS, key=truth)

    def miss(setting: Setting) -> TrialResult:
        return measured(1.2 if setting.key == corner.key else 0.4)

    search = foreseeing(lambda s: 0.1 * truth(s))
    assert corner.key in [p.setting.key for p, _ in run(search, 12, miss)]


def test_where_nothing_ran_it_looks_elsewhere() -> None:
    def answer_(setting: Setting) -> TrialResult:
        if setting.variant == "fp8":
            return failed(Reason.UNSUPPORTED)
        return answer(setting)

    done = run(foreseeing(lambda s: math.log(truth(s))), 12, answer_)
    refused = [n for n, (p, _) in enumerate(done) if p.setting.variant == "fp8"]
    assert len(refused) <= 6
    assert max(truth(p.setting) for p, _ in done if p.setting.variant != "fp8") > BEST - 0.35


def test_a_colder_start_must_promise_more() -> None:
    """Equal but for the variant: what starts in a tenth of the time is asked for first."""

    def slow(setting: Setting) -> TrialResult:
        result = answer(setting)
        assert result.launch is not None
        cold_s = 3_000.0 if setting.variant == "fp8" else 30.0
        launch = type(result.launch)(result.launch.resolved, cold_s, None)
        return type(result)(result.state, launch=launch, headroom=result.headroom)

    search = foreseeing(lambda s: 0.3 * (s.get("enable_prefix_caching") is True))
    done = run(search, 10, slow)
    assert {p.setting.variant for p, _ in done[-4:]} == {"bf16"}


def test_each_measured_launch_is_learned_from_and_no_other() -> None:
    search = foreseeing(lambda s: math.log(truth(s)))
    answers = [failed(Reason.HUNG), failed(Reason.UNSUPPORTED), *[measured(1.0)] * 3]
    done = run(search, 5, lambda _: answers.pop(0))
    forecast: object = search.physics
    assert isinstance(forecast, Forecast)
    assert forecast.learned == [p.setting for p, _ in done[2:]]


def test_places_scale_ranges_and_keep_words_apart() -> None:
    kinds = {
        "tokens": IntDistribution(0, 4),
        "word": CategoricalDistribution((0, 1, 2)),
        "sometimes": IntDistribution(0, 1),
    }
    found = places([{"tokens": 0, "word": 0}, {"tokens": 4, "word": 2, "sometimes": 1}], kinds)
    assert found.shape == (2, 1 + 3 + 2)
    apart = np.abs(found[0] - found[1]).round(3)
    assert sorted(apart.tolist()) == [0.0, 0.5, 0.707, 0.707, 1.0, 1.0]


def test_no_launch_is_spent_on_what_may_not_be_advised() -> None:
    search = searcher(
        Space((TOKENS,), (Variant("bf16"), Variant("fp8", flags=(("quantization", "fp8"),)))),
        may_be_advised=lambda setting: setting.variant == "bf16",
    )
    search.physics = Forecast(lambda s: float(s.variant == "fp8"))  # type: ignore[assignment]
    done = [p.setting.variant for p, _ in run(search, 14, lambda s: measured(len(s.flags)))]
    # as many as there are of the one; the other only when nothing else is left
    assert set(done[:7]) == {"bf16"}


def test_those_without_a_forecast_keep_a_tenth_of_the_say_whatever_comes_true() -> None:
    n = 30
    forecast = np.linspace(-1, 1, n)
    drawn = np.random.default_rng(1).normal(0, 0.1, (n, DRAWS))
    grid = Grid(
        params=[{"tokens": row} for row in range(n)],
        places=np.linspace(0, 1, n)[:, None],
        expected=Expected(forecast, drawn, np.ones(n)),
        minutes=np.ones(n),
        log_load=np.zeros(n),
        free=range(n),
    )
    models = grid.models()
    blind = np.array([model.mean is grid.log_load for model in models])
    assert sum(model.weight for model in models) == pytest.approx(1)
    told = believe(models, [Seen(row, float(forecast[row])) for row in range(0, n, 3)])
    assert told.weights[blind].sum() == pytest.approx(0.1)
