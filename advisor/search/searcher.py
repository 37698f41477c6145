"""Chooses the next setting: never one already tried, nor one that is known to fail."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from advisor.search.greybox import GreyBox, Grid, places
from advisor.search.left import Left
from advisor.search.objective import WORST_EXCESS, Constraints, Score, bounded
from advisor.search.physics import Expected, Physics
from advisor.search.shortfall import off_by
from advisor.search.space import Space
from advisor.search.study import STARTUP_TRIALS, Point, Suggester, Told, tpe
from advisor.search.surrogate import Float64
from advisor.terms.errors import InputError
from advisor.terms.flags import FlagValue
from advisor.terms.job import SMALLER_CHANGE, Proposal, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting

#: Suggestions to look through for one that is still open, before a random one is taken.
_TRIES = 24

#: Further launches of a setting whose replays the load generator spoiled.
_VOID_RETRIES = 1

#: Settings that the default sampler looks at; of more that are open, so many at random.
_MOST_ROWS = 400
#: The search ends when no launch is expected to gain more than this share, once so many ended: a
#: few measurements of each setting would be needed to see less.
_LEAST_GAIN, _LEAST_ENDED = 0.005, 6


_EXHAUSTED = "every setting of the Space was tried"


class SamplerName(StrEnum):
    """How the next setting is chosen; `advisor` is the default, a simulator and what it misses."""

    ADVISOR = "advisor"
    TPE = "tpe"
    GP = "gp"
    RANDOM = "random"
    GRID = "grid"


def sampler_name(word: str) -> SamplerName:
    """Raises InputError for an unknown one."""
    try:
        return SamplerName(word)
    except ValueError:
        accepted = ", ".join(SamplerName)
        raise InputError(f"sampler {word!r} is unknown; one of {accepted}") from None


class OptunaSearcher:
    """Ask and tell over one Space; a `tune.ports.Searcher`.

    What is asked next depends only on the seed and on what was told: the study is rebuilt at
    each ask, so a restart that tells the ledger's trials again goes on as if never stopped.
    """

    def __init__(
        self,
        space: Space,
        model: str,
        fixed: Mapping[str, FlagValue],
        *,
        score: Score,
        constraints: Constraints,
        targets: int,
        sampler: str = SamplerName.ADVISOR,
        seed: int = 0,
        load: float | None = None,
        gpus: int | None = None,
        replay_s: float = 60.0,
        may_be_advised: Callable[[Setting], bool] = lambda setting: True,
    ) -> None:
        """`score` is raised and None where a trial has none; `constraints` gives `targets`
        values per measured trial, 0 or less when the target is met at the job's load.

        `load` is the job's where scores are load multiples, None where they are something else:
        `advisor` is then `tpe`. `gpus`: a score is the multiple that so many GPUs would carry,
        None: that the setting's own do. `replay_s` is what a launch takes beside its cold start.
        `advisor` and `gp` spend launches on others than those that `may_be_advised` last.

        Raises InputError for an unknown sampler, or `gp` where scores are no load multiples,
        SpaceError for a Space with no valid setting.
        """
        self._sampler = sampler_name(sampler)
        if self._sampler is SamplerName.GP and load is None:
            raise InputError("sampler 'gp' knows the objectives headroom and cost alone")
        self._score = score
        self._constraints = constraints
        self._targets = targets
        self._seed = seed
        self._log_load = None if load is None else math.log(load)
        self._gpus = gpus
        #: None where the simulator knows nothing of the server
        self.physics: Physics | None = None
        self._replay_s = replay_s
        self._may_be_advised = may_be_advised
        #: random trials of `tpe` before its model
        self.startup_trials = STARTUP_TRIALS
        self._cold_start_s: dict[str | None, float] = {}
        self._suggester = Suggester(space, model)
        self._left = Left(space, model, fixed)
        self._open = self._left.by_key
        self._by_choice = {_choice(setting): setting.key for setting in self._open.values()}
        self._asked: dict[str, Setting] = {}
        self._failures: Counter[str] = Counter()
        self._last_failed: str | None = None
        self._told: list[Told] = []
        self._ended = 0
        self._why_ended = _EXHAUSTED

    def ask(self) -> Proposal | None:
        """The next setting, never one already told; None when the Space is exhausted, or when no
        setting left is expected to gain anything that could be measured."""
        free = [key for key in self._open if key not in self._asked]
        if not free:
            self._why_ended = _EXHAUSTED
            return None
        # Trials that ended and are still asked, not calls: what a restart can count again.
        turn = [self._seed & (2**64 - 1), self._ended + len(self._asked)]
        rng = np.random.default_rng(turn)
        # what failed by our fault just now has its second turn after another, or instead of an end
        modelled = self._sampler in (SamplerName.ADVISOR, SamplerName.GP)
        others = [key for key in free if not modelled or key != self._last_failed] or free
        key, origin, gain = self._choose(others, rng)
        if self._is_too_little(gain) and len(others) < len(free):
            key, origin, gain = self._choose(free, rng)
        if self._is_too_little(gain):
            self._why_ended = f"no setting left is expected to gain more than {_LEAST_GAIN:.1%}"
            return None
        setting = self._open[key]
        self._asked[key] = setting
        return Proposal(setting, origin + (", retry" if self._failures[key] else ""))

    def _is_too_little(self, gain: float | None) -> bool:
        return gain is not None and gain < _LEAST_GAIN and self._ended >= _LEAST_ENDED

    def resume(self, proposal: Proposal) -> None:
        """One that an earlier process asked for is launched again: it is running, as if it had
        just been asked for."""
        self._asked[proposal.setting.key] = proposal.setting

    @property
    def why_ended(self) -> str:
        """For a person: why `ask` gave None."""
        return self._why_ended

    def simpler(self, setting: Setting, baseline: Setting) -> Proposal | None:
        """One of its changes against the baseline taken back, not yet tried and not known to fail;
        None when there is no such."""
        other = self._left.simpler(setting, baseline)
        if other is None:
            return None
        self._asked[other.key] = other
        return Proposal(other, SMALLER_CHANGE)

    def _choose(self, free: list[str], rng: np.random.Generator) -> tuple[str, str, float | None]:
        """Key and origin, and the share that it is expected to gain where that is known."""
        if self._sampler is SamplerName.GRID:
            return free[0], "grid", None
        seed = int(rng.integers(2**31))
        any_free = free[int(rng.integers(len(free)))]
        if self._sampler is SamplerName.RANDOM:
            return any_free, "random", None
        modelled = self._sampler in (SamplerName.ADVISOR, SamplerName.GP)
        if modelled and self._log_load is not None:
            return self._grey_box(free, self._log_load, rng)
        running = [self._suggester.locate(setting) for setting in self._asked.values()]
        study = self._suggester.open(
            tpe(seed, self.startup_trials), self._told, [each for each in running if each]
        )
        allowed = set(free)
        for _ in range(_TRIES):
            key = self._by_choice.get(_named(*self._suggester.suggest(study)))
            if key in allowed and key is not None:
                return key, "tpe", None
        return any_free, "random, since tpe repeats itself", None

    def _grey_box(
        self, free: list[str], log_load: float, rng: np.random.Generator
    ) -> tuple[str, str, float]:
        free = [key for key in free if self._may_be_advised(self._open[key])] or free
        # at random, so that the first of those that seem equal is not always the same
        free = [free[n] for n in rng.permutation(len(free))[:_MOST_ROWS]]
        told = list({told.setting.key: told.setting for told in self._told}.values())
        rows = told + [self._open[key] for key in free]
        number = {setting.key: row for row, setting in enumerate(rows)}
        points = [self._suggester.locate(setting) or Point() for setting in rows]
        distributions = {k: v for point in points for k, v in point.distributions.items()}
        grid = Grid(
            params=[point.params for point in points],
            places=places([point.params for point in points], distributions),
            expected=self._expected(rows),
            minutes=np.array([self._minutes(setting) for setting in rows]),
            log_load=log_load - self._log_gpus(rows),
            free=range(len(told), len(rows)),
        )
        sampler = GreyBox(grid)
        seen = [replace(each, row=number[each.setting.key]) for each in self._told]
        study = self._suggester.open(sampler, seen, ())
        key = self._by_choice[_named(*self._suggester.suggest(study))]
        return key, str(self._sampler), sampler.expected_gain

    def _expected(self, settings: Sequence[Setting]) -> Expected | None:
        if self.physics is None or self._sampler is not SamplerName.ADVISOR:
            return None
        found = self.physics.expect(settings)
        return replace(found, log_headroom=found.log_headroom - self._log_gpus(settings))

    def _log_gpus(self, settings: Sequence[Setting]) -> Float64:
        """What a multiple loses when it is that of as many GPUs as scores are of."""
        if self._gpus is None:
            return np.zeros(len(settings))
        return np.log([setting.gpus / self._gpus for setting in settings])

    def _minutes(self, setting: Setting) -> float:
        """What a launch takes: as cold as its variant's last start, or any one's before that."""
        seen = self._cold_start_s
        cold_s = seen.get(setting.variant, max(seen.values(), default=0.0))
        return (cold_s + self._replay_s) / 60

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """Learn how a proposal ended; also replays the ledger's trials after a restart.

        Raises ValueError for a trial that still runs, or the wrong number of constraints.
        """
        setting = proposal.setting
        if result.state is TrialState.RUNNING:
            raise ValueError(f"trial of {setting.key} is told before it ended")
        self._asked.pop(setting.key, None)
        if result.state is TrialState.INTERRUPTED:
            return
        self._ended += 1
        failed = result.state is TrialState.FAILED
        self._last_failed = setting.key if failed else None
        if failed:
            self._failures[setting.key] += 1
            retries = result.failure.rule.retries if result.failure else _VOID_RETRIES
            if self._failures[setting.key] > retries:
                self._left.give_up(setting)
            return
        self._learn(setting, result)
        self._left.close(setting, result)

    def _learn(self, setting: Setting, result: TrialResult) -> None:
        resolved = result.launch.resolved if result.launch else ()
        point = self._suggester.locate(setting, resolved)
        constraints: tuple[float, ...]
        if result.state is TrialState.INFEASIBLE:
            # worse than any measured miss
            score, constraints = None, (self._targets * WORST_EXCESS + off_by(result.failure),)
        else:
            score = self._score(result)
            score = score if score is not None and math.isfinite(score) else None
            raw = self._constraints(result)
            if len(raw) != self._targets:
                raise ValueError(f"{len(raw)} constraints for {self._targets} targets")
            constraints = tuple(bounded(value) for value in raw)
        # With neither a score nor a miss there is nothing to learn from it.
        if point is not None and (score is not None or any(c > 0 for c in constraints)):
            self._told.append(
                Told(point, score, constraints, setting, result.state is TrialState.MEASURED)
            )
        if result.launch is not None:
            self._cold_start_s[setting.variant] = result.launch.cold_start_s
        if self.physics is not None and result.state is TrialState.MEASURED:
            # as it ran: a server may not take a knob as it is asked
            ran = {n: v for n, v in resolved if n in setting.knobs}
            flags = {**dict(setting.flags), **ran}
            as_ran = Setting.of(setting.model, flags, setting.knobs, setting.variant)
            self.physics.learn(as_ran, result)


def _choice(setting: Setting) -> "_Choice":
    """What a suggestion names: the variant and the searched values."""
    return _named(setting.variant, {n: v for n, v in setting.flags if n in setting.knobs})


_Choice = tuple[str | None, frozenset[tuple[str, FlagValue]]]


def _named(variant: str | None, chosen: Mapping[str, FlagValue]) -> _Choice:
    return variant, frozenset(chosen.items())
