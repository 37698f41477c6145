"""The sampler of the default search: a simulator's forecast, corrected by what was measured.

The score of a setting is what the calibrated simulator expects of it, plus what a smooth function
of the knobs adds. Beside that belief stands one that knows no physics at all and keeps a share
whatever happens, so that a simulator that is wrong about this server misleads for a while only.
The next setting is the one with the largest expected gain over the best so far, times its chances
to start and to meet the targets, for each minute that it takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState
from scipy import special

from advisor.search.physics import Expected
from advisor.search.surrogate import Belief, Float64, Model, Seen, believe, likeness

#: Which row of the grid a told trial is, whether it ran, and whether it has a score.
ROW, RAN, SCORED = "row", "ran", "scored"
#: Standard deviations, as a logarithm, of a headroom that is measured again: from a calm server to
#: one near saturation on windows that differ.
NOISE = (0.01, 0.03, 0.1)
#: Of the beliefs without physics, their share at first.
_BLIND = 0.2
#: What physics leaves open: a factor common to all settings, and one that differs between them.
_COMMON, _OWN = 0.3, (0.04, 0.15, 0.3)
#: The same for the belief without physics, and over which part of a knob's range it differs.
_ANYWHERE, _DIFFERS, _LENGTHS = 1.0, (0.1, 0.4), (0.35, 0.9)
_OWN_LENGTH = 0.5
#: Of that, what may differ between settings that the simulator cannot tell apart: they are alike
#: where it knows all that matters, and as unlike as any others where it is blind to a knob.
_APART = (0.03, 1.0)
#: Settings are hardly told apart whose log headroom differs by no more on any server.
_SAME = 0.02
#: Whether a setting runs, as a number that is above 0 when it does: what is believed without a
#: simulator, how far that differs, over which part of a knob's range, and what one launch shows.
_HARDLY_RUNS = 0.05
_RUNS, _RUNS_DIFFERS, _RUNS_LENGTH, _SHOWN, _SHOWN_NOISE = 1.5, 1.5, 0.5, 2.0, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """n settings, those told and those that may be asked."""

    params: Sequence[Mapping[str, int]]
    #: float64[n, d], each knob's range scaled to 1
    places: Float64
    #: what the simulator expects; None where it does not know model or hardware
    expected: Expected | None
    #: float64[n], minutes that a launch of each takes
    minutes: Float64
    #: float64[n], the least log headroom that meets the targets
    log_load: Float64
    #: rows that may be asked
    free: Sequence[int]

    def runs(self, told: Sequence[tuple[int, bool]]) -> Float64:
        """float64[n], the probability that a setting runs, after these (row, ran)."""
        n = len(self.params)
        first = np.full(n, _RUNS)
        if self.expected is not None:
            first = special.ndtri(np.clip(self.expected.starts, 1e-6, 1 - 1e-6))
        near = _RUNS_DIFFERS**2 * likeness(self.places, _RUNS_LENGTH)
        seen = [Seen(row, _SHOWN if ran else -_SHOWN) for row, ran in told]
        model = Model(1.0, True, first, near, _SHOWN_NOISE)
        return believe([model], seen).chance_above(0.0)

    def models(self) -> list[Model]:
        """The beliefs before anything was measured."""
        parts = (1.0,) if self.expected is None else _APART
        # each is used by many models
        alike = {
            (length, apart): self._alike(length, apart)
            for length, apart in product({*_LENGTHS, _OWN_LENGTH}, parts)
        }
        blind = list(product(_DIFFERS, _LENGTHS, NOISE, parts))
        share = (1.0 if self.expected is None else _BLIND) / len(blind)
        # about the job's load, whatever multiple of a recording that is
        nothing, anywhere = self.log_load, _ANYWHERE**2
        found = [
            Model(share, True, nothing, anywhere + differs**2 * alike[length, apart], noise)
            for differs, length, noise, apart in blind
        ]
        if self.expected is None:
            return found
        drawn = self.expected.deviations
        common = _COMMON**2 + drawn @ drawn.T / drawn.shape[1]
        foreseen, expected = list(product(_OWN, NOISE, parts)), self.expected.log_headroom
        share = (1 - _BLIND) / len(foreseen)
        return found + [
            Model(
                share,
                False,
                expected,
                common + own**2 * alike[_OWN_LENGTH, apart],
                noise,
            )
            for own, noise, apart in foreseen
        ]

    def _alike(self, length: float, apart: float) -> Float64:
        """float64[n, n], how much a setting tells of another, by how they differ in their knobs
        and, for all but a part, in how the simulator plays them."""
        by_knobs = likeness(self.places, length)
        if apart == 1.0:
            return by_knobs
        return (1 - apart) * likeness(self._as_played(), length) + apart * by_knobs

    def _as_played(self) -> Float64:
        """float64[n, d], the places, where a setting that the simulator hardly tells from an
        earlier one lies where that does: what it misses about the one it misses about both."""
        assert self.expected is not None  # asked by those who have a forecast
        carried = self.expected.log_headroom[:, None] + np.column_stack(
            (np.zeros(len(self.params)), self.expected.deviations)
        )
        leaders: list[int] = []
        moved = self.places.copy()
        for row, starts in enumerate(self.expected.starts > 0.5):
            apart = np.abs(carried[leaders] - carried[row]).max(axis=1, initial=0.0)
            near = [leader for leader, by in zip(leaders, apart, strict=True) if by < _SAME]
            if starts and near:
                moved[row] = self.places[near[0]]
            elif starts:
                leaders.append(row)
        return moved


class GreyBox(BaseSampler):
    """An Optuna sampler over a grid; the study's trials name their row of it."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._chosen: Mapping[str, int] = {}
        #: of the setting chosen last, as a share: what a further launch may be expected to gain
        self.expected_gain = 0.0

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Nothing: knobs depend on each other, so a row is chosen as a whole."""
        return {}

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Chooses the row; its parameters are then given one by one."""
        self._chosen = self._grid.params[self._choose(study)]
        return {}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._chosen[param_name]

    def _choose(self, study: optuna.Study) -> int:
        free = np.array(self._grid.free)
        seen = _seen(study)
        belief = believe(self._grid.models(), seen)
        best = self._best(belief, seen)
        gain = belief.expected_gain(best)
        # of one that is better than the best; where that one meets them, it does too
        better = np.maximum(belief.chance_above(best), np.finfo(np.float64).tiny)
        meets = belief.chance_above(np.maximum(best, self._grid.log_load)) / better
        runs = self._grid.runs(_ran(study))
        worth = gain * meets * runs / self._grid.minutes
        row = int(free[np.argmax(worth[free])])
        # what can hardly start is no reason to go on, but where nothing has run yet
        hopeful = free[runs[free] > _HARDLY_RUNS] if seen else free
        self.expected_gain = float(np.expm1(gain[hopeful].max(initial=0.0)))
        return row

    def _best(self, belief: Belief, seen: Sequence[Seen]) -> float:
        """What the best setting measured so far is believed to carry; with none, the job's load:
        settings are then compared by their chance to carry that."""
        rows = [each.row for each in seen]
        return float(belief.mean[rows].max()) if rows else float(self._grid.log_load.max())


def _seen(study: optuna.Study) -> list[Seen]:
    return [
        Seen(trial.user_attrs[ROW], float(np.log(trial.value)))
        for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if trial.user_attrs[SCORED] and trial.value is not None and trial.value > 0
    ]


def _ran(study: optuna.Study) -> list[tuple[int, bool]]:
    told = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return [(trial.user_attrs[ROW], trial.user_attrs[RAN]) for trial in told]


def places(
    params: Sequence[Mapping[str, int]], distributions: Mapping[str, BaseDistribution]
) -> Float64:
    """float64[n, d]: ordered knobs from 0 to 1, one column for each word of the others, and one
    that tells where a knob has no value at all."""
    columns: list[list[float]] = []
    for name, kind in sorted(distributions.items()):
        at = [each.get(name) for each in params]
        if isinstance(kind, IntDistribution):
            columns.append([0.5 if p is None else p / kind.high for p in at])
        elif isinstance(kind, CategoricalDistribution):
            # two words are as far apart as the ends of a range
            columns += [[0.5**0.5 if p == choice else 0.0 for p in at] for choice in kind.choices]
        if None in at:
            columns.append([float(p is None) for p in at])
    return np.array(columns).T.reshape(len(params), len(columns))
