"""The settings of a Space that may still be tried."""

from collections.abc import Callable, Mapping, Sequence

from advisor.search.exclusions import effective_flags, excluded_by, runs_as
from advisor.search.ignored import Ignored
from advisor.search.rule import VLLM_RULES
from advisor.search.simpler import simpler
from advisor.search.space import Space
from advisor.terms.flags import FlagValue
from advisor.terms.job import TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting


class Left:
    """By key, in the order of the Space; each answer takes away what it answers for."""

    def __init__(self, space: Space, model: str, fixed: Mapping[str, FlagValue]) -> None:
        """Raises SpaceError for a Space with no valid setting."""
        self._space = space
        self.by_key = {setting.key: setting for setting in space.settings(model, fixed)}
        self._done: set[str] = set()
        self._must_fail: list[Callable[[Setting], bool]] = []
        self._ignored = Ignored()

    def give_up(self, setting: Setting) -> None:
        """One that was tried often enough."""
        self._done.add(setting.key)
        self.by_key.pop(setting.key, None)

    def close(self, setting: Setting, result: TrialResult) -> None:
        """Never this one again, nor any that would repeat it or must fail as it did."""
        self.give_up(setting)
        if result.launch is not None:
            ran = effective_flags(setting, result.launch.resolved)
            self._drop([s for s in self.by_key.values() if runs_as(s, setting, ran)])
        if result.failure is not None and result.state is TrialState.INFEASIBLE:
            must_fail = excluded_by(setting, result.failure)
            self._must_fail.append(must_fail)
            self._drop([s for s in self.by_key.values() if must_fail(s)])
        self._ignored.hear(setting, result.launch)
        self._drop(self._ignored.repeats(self.by_key.values()))

    def _drop(self, settings: Sequence[Setting]) -> None:
        for setting in settings:
            self.by_key.pop(setting.key, None)

    def simpler(self, setting: Setting, baseline: Setting) -> Setting | None:
        """The setting with one of its changes against the baseline taken back, not yet tried and
        not known to fail; None when there is no such."""
        rules = (*VLLM_RULES, *self._space.rules)
        for other in simpler(setting, baseline, self._space):
            flags = dict(other.flags)
            tried = other.key in self._done or other.key == baseline.key
            if tried or any(must_fail(other) for must_fail in self._must_fail):
                continue
            if all(rule.holds(flags) for rule in rules):
                return other
        return None
