"""Chooses the next setting: never one already tried, nor one that is known to fail."""

import math
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from advisor.search.exclusions import effective_flags, excluded_by, runs_as
from advisor.search.objective import WORST_EXCESS, Constraints, Score, bounded
from advisor.search.space import Space
from advisor.search.study import Suggester, Told
from advisor.terms.errors import InputError
from advisor.terms.flags import FlagValue
from advisor.terms.job import Proposal, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting

#: Suggestions to look through for one that is still open, before a random one is taken.
_TRIES = 24

#: Further launches of a setting whose replays the load generator spoiled.
_VOID_RETRIES = 1

#: Violation of a setting that cannot run when its log does not tell how far off it was.
_UNKNOWN_SHORTFALL = 1.0


class SamplerName(StrEnum):
    """How the next setting is chosen; `advisor` is the default, constrained TPE."""

    ADVISOR = "advisor"
    TPE = "tpe"
    RANDOM = "random"
    GRID = "grid"


def sampler_name(word: str) -> SamplerName:
    """Raises InputError for an unknown one, and for `gp`, which would need PyTorch."""
    accepted = ", ".join(SamplerName)
    if word == "gp":
        raise InputError(
            f"sampler 'gp' needs PyTorch, which Advisor does not install; one of {accepted}"
        )
    try:
        return SamplerName(word)
    except ValueError:
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
    ) -> None:
        """`score` is raised and None where a trial has none; `constraints` gives `targets`
        values per measured trial, 0 or less when the target is met at the job's load.

        Raises InputError for an unknown sampler, SpaceError for a Space with no valid setting.
        """
        self._sampler = sampler_name(sampler)
        self._score = score
        self._constraints = constraints
        self._targets = targets
        self._seed = seed
        self._suggester = Suggester(space, model)
        self._open = {setting.key: setting for setting in space.settings(model, fixed)}
        self._by_choice = {_choice(setting): setting.key for setting in self._open.values()}
        self._asked: dict[str, Setting] = {}
        self._failures: Counter[str] = Counter()
        self._told: list[Told] = []
        self._ended = 0

    def ask(self) -> Proposal | None:
        """The next setting, never one already told; None when the Space is exhausted."""
        free = [key for key in self._open if key not in self._asked]
        if not free:
            return None
        # Trials that ended and are still asked, not calls: what a restart can count again.
        turn = [self._seed & (2**64 - 1), self._ended + len(self._asked)]
        rng = np.random.default_rng(turn)
        key, origin = self._choose(free, rng)
        setting = self._open[key]
        self._asked[key] = setting
        return Proposal(setting, origin + (", retry" if self._failures[key] else ""))

    def _choose(self, free: list[str], rng: np.random.Generator) -> tuple[str, str]:
        if self._sampler is SamplerName.GRID:
            return free[0], "grid"
        seed = int(rng.integers(2**31))
        any_free = free[int(rng.integers(len(free)))]
        if self._sampler is SamplerName.RANDOM:
            return any_free, "random"
        running = [self._suggester.locate(setting) for setting in self._asked.values()]
        study = self._suggester.open(seed, self._told, [point for point in running if point])
        allowed = set(free)
        for _ in range(_TRIES):
            variant, chosen = self._suggester.suggest(study)
            key = self._by_choice.get((variant, frozenset(chosen.items())))
            if key in allowed and key is not None:
                return key, "tpe"
        return any_free, "random, since tpe repeats itself"

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
        if result.state is TrialState.FAILED:
            self._failures[setting.key] += 1
            retries = result.failure.rule.retries if result.failure else _VOID_RETRIES
            if self._failures[setting.key] > retries:
                self._open.pop(setting.key, None)
            return
        self._learn(setting, result)
        self._close(setting, result)

    def _learn(self, setting: Setting, result: TrialResult) -> None:
        resolved = result.launch.resolved if result.launch else ()
        point = self._suggester.locate(setting, resolved)
        if result.state is TrialState.INFEASIBLE:
            score, constraints = None, self._cannot_run(result)
        else:
            score = self._score(result)
            score = score if score is not None and math.isfinite(score) else None
            raw = self._constraints(result)
            if len(raw) != self._targets:
                raise ValueError(f"{len(raw)} constraints for {self._targets} targets")
            constraints = tuple(bounded(value) for value in raw)
        # With neither a score nor a miss there is nothing to learn from it.
        if point is not None and (score is not None or any(c > 0 for c in constraints)):
            self._told.append(Told(point, score, constraints))

    def _cannot_run(self, result: TrialResult) -> tuple[float, ...]:
        """Worse than any measured miss, and among themselves graded by the shortfall."""
        shortfall = result.failure.shortfall if result.failure else None
        known = shortfall is not None and shortfall > 0
        off_by = bounded(shortfall) if known and shortfall is not None else _UNKNOWN_SHORTFALL
        return (self._targets * WORST_EXCESS + off_by,)

    def _close(self, setting: Setting, result: TrialResult) -> None:
        """Never ask this one again, nor any that would repeat it or must fail as it did."""
        self._open.pop(setting.key, None)
        if result.launch is not None:
            ran = effective_flags(setting, result.launch.resolved)
            self._drop([s for s in self._open.values() if runs_as(s, setting, ran)])
        if result.failure is not None and result.state is TrialState.INFEASIBLE:
            must_fail = excluded_by(setting, result.failure)
            self._drop([s for s in self._open.values() if must_fail(s)])

    def _drop(self, settings: list[Setting]) -> None:
        for setting in settings:
            self._open.pop(setting.key, None)


def _choice(setting: Setting) -> tuple[str | None, frozenset[tuple[str, FlagValue]]]:
    """What a suggestion names: the variant and the searched values."""
    values = ((name, value) for name, value in setting.flags if name in setting.knobs)
    return setting.variant, frozenset(values)
