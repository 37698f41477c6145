"""Optuna's side: the Space as distributions, the told trials as a study, one suggestion."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from advisor.search.greybox import RAN, ROW, SCORED
from advisor.search.knob import Knob, is_number, same
from advisor.search.space import Space, Variant
from advisor.terms.flags import FlagValue
from advisor.terms.setting import Setting

#: A knob cannot have this name.
_VARIANT = "(variant)"

#: Random trials before TPE's model: Optuna's 10 launches would be most of a job.
STARTUP_TRIALS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the Space as Optuna has it: of each parameter the position of its value."""

    params: dict[str, int] = field(default_factory=dict)
    distributions: dict[str, BaseDistribution] = field(default_factory=dict)

    def put(self, name: str, position: int, count: int, ordered: bool) -> None:
        """Add one parameter, unless there is nothing to choose."""
        if count > 1:
            self.params[name] = position
            self.distributions[name] = _distribution(count, ordered)


@dataclass(frozen=True, slots=True)
class Told:
    """A trial that the sampler learns from; all numbers finite."""

    point: Point
    #: None: it has none, and gets the worst one
    score: float | None
    #: each 0 or less when it is met
    constraints: tuple[float, ...]
    setting: Setting
    #: False where it could not
    ran: bool
    #: among the settings that the sampler was given, where it was given any
    row: int = -1


def tpe(seed: int, startup_trials: int = STARTUP_TRIALS) -> BaseSampler:
    """Optuna's default, for knobs that depend on each other."""
    with warnings.catch_warnings():
        # `group` (conditional knobs in a multivariate model) is marked experimental.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(
            seed=seed, n_startup_trials=startup_trials, multivariate=True, group=True
        )


class Suggester:
    """A study over one Space.

    Ordered knobs are searched by the position of their value, so that 512 and 1024 are as near
    as 8192 and 16384; a knob whose condition does not hold is no parameter of that trial.
    """

    def __init__(self, space: Space, model: str) -> None:
        # Optuna's own log would write to stderr, where the progress is.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._model = model
        self._knobs = space.parents_first()
        self._variants = space.variants
        self._owned = sorted({name for v in space.variants for name, _ in v.flags})

    def open(
        self, sampler: BaseSampler, told: Sequence[Told], running: Iterable[Point]
    ) -> optuna.Study:
        """A study in memory that knows what was told and what is still running."""
        study = optuna.create_study(direction="maximize", sampler=sampler)
        scores = [trial.score for trial in told if trial.score is not None]
        worst = min(scores, default=0.0)
        for trial in told:
            study.add_trial(
                optuna.trial.create_trial(
                    value=worst if trial.score is None else trial.score,
                    params=dict(trial.point.params),
                    distributions=trial.point.distributions,
                    constraints={str(i): value for i, value in enumerate(trial.constraints)},
                    user_attrs={
                        ROW: trial.row,
                        RAN: trial.ran,
                        SCORED: trial.score is not None,
                    },
                )
            )
        for point in running:
            study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.RUNNING,
                    params=dict(point.params),
                    distributions=point.distributions,
                )
            )
        return study

    def suggest(self, study: optuna.Study) -> tuple[str | None, dict[str, FlagValue]]:
        """Variant name and the searched flags; left running, so the next one keeps away."""
        trial = study.ask()
        variant = self._variants[0] if self._variants else None
        if len(self._variants) > 1:
            variant = self._variants[_suggest(trial, _VARIANT, len(self._variants), False)]
        chosen: dict[str, FlagValue] = {}
        for knob in self._knobs:
            if not knob.applies(chosen):
                continue
            position = 0
            if len(knob.values) > 1:
                position = _suggest(trial, knob.name, len(knob.values), knob.type.is_ordered)
            chosen[knob.name] = knob.values[position]
        if variant is None:
            return None, chosen
        return variant.name, {**dict(variant.flags), **chosen}

    def locate(
        self, setting: Setting, resolved: Iterable[tuple[str, FlagValue]] = ()
    ) -> Point | None:
        """Where a setting lies in the Space; None when it lies outside, or cannot be told.

        `resolved` fills in the flags that were not given, as in the baseline.
        """
        point = Point()
        if not self._place_variant(point, setting):
            return None
        flags = {**dict(resolved), **dict(setting.flags)}
        chosen: dict[str, FlagValue] = {}
        for knob in self._knobs:
            if not knob.applies(chosen):
                continue
            position = _nearest_position(knob, flags.get(knob.name))
            if position is None:
                return None
            chosen[knob.name] = knob.values[position]
            point.put(knob.name, position, len(knob.values), knob.type.is_ordered)
        return point

    def _place_variant(self, point: Point, setting: Setting) -> bool:
        if not self._variants:
            return setting.model == self._model
        for position, variant in enumerate(self._variants):
            if self._is(variant, setting):
                point.put(_VARIANT, position, len(self._variants), False)
                return True
        return False

    def _is(self, variant: Variant, setting: Setting) -> bool:
        """By what was given, not by what the server made of it: the baseline has no variant."""
        wanted = dict(variant.flags)
        return setting.model == (variant.model or self._model) and all(
            same(setting.get(name), wanted.get(name)) for name in self._owned
        )


def _distribution(count: int, ordered: bool) -> BaseDistribution:
    if ordered:
        return IntDistribution(0, count - 1)
    return CategoricalDistribution(range(count))


def _suggest(trial: optuna.Trial, name: str, count: int, ordered: bool) -> int:
    if ordered:
        return trial.suggest_int(name, 0, count - 1)
    return trial.suggest_categorical(name, range(count))


def _nearest_position(knob: Knob, value: FlagValue | None) -> int | None:
    """Of an equal value, else of the nearest where there is an order and it is within range.

    The baseline is rarely on the grid (vLLM's utilisation of 0.92), and what it taught is still
    worth telling; a value out of range would be told at a place where it is not.
    """
    for position, each in enumerate(knob.values):
        if same(each, value):
            return position
    if not knob.type.is_ordered or not is_number(value):
        return None
    distances = [abs(float(each) - value) for each in knob.values]
    if not float(knob.values[0]) <= value <= float(knob.values[-1]):
        return None
    return distances.index(min(distances))
