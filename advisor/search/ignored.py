"""Knobs that a server does not take as asked: settings that it runs alike count as one."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from advisor.search.knob import is_number, same
from advisor.terms.flags import FlagValue
from advisor.terms.job import Launch
from advisor.terms.setting import Setting


@dataclass(frozen=True, slots=True)
class _Taken:
    """What one launch made of one value."""

    asked: FlagValue
    runs: FlagValue

    @property
    def as_asked(self) -> bool:
        return same(self.asked, self.runs)


@dataclass(slots=True)
class Ignored:
    """What launches have said of values that a server does not run.

    A server that runs 9 where 4 was asked ignores the knob, or takes nothing below 9: either way
    it runs 9 for every value below, and nothing is known of those above until one was launched.
    Words have no order: once two of them became the same third, the knob counts as ignored. Where
    different launches ran different values in place of what was asked, another flag decides, and
    nothing is concluded. What one variant ignores another may take.
    """

    #: (variant, flag) -> what each launch made of it
    _seen: dict[tuple[str | None, str], list[_Taken]] = field(default_factory=dict)
    #: settings that have their answer
    _answered: list[Setting] = field(default_factory=list)
    _any: bool = False

    def hear(self, setting: Setting, launch: Launch | None) -> None:
        """A setting has its answer; `launch` is None where its server did not come up."""
        self._answered.append(setting)
        if launch is None:
            return
        # "NAME: asked X, runs Y", of knobs alone; whoever wrote it knows which words mean the same
        named = {line.partition(":")[0] for line in launch.ignored}
        runs = dict(launch.resolved)
        for name, asked in setting.flags:
            if name in setting.knobs and name in runs:
                taken = _Taken(asked, runs[name] if name in named else asked)
                self._seen.setdefault((setting.variant, name), []).append(taken)
                self._any = self._any or not taken.as_asked

    def repeats(self, settings: Iterable[Setting]) -> list[Setting]:
        """Those that a server would run like one that has its answer."""
        if not self._any:
            return []
        answered = {self._as_run(each) for each in self._answered}
        return [each for each in settings if self._as_run(each) in answered]

    def _as_run(self, setting: Setting) -> str:
        """The key of what a server is known to run instead."""
        flags = {n: self._in_force(setting.variant, n, value) for n, value in setting.flags}
        return Setting.of(setting.model, flags).key

    def _in_force(self, variant: str | None, name: str, value: FlagValue) -> FlagValue:
        seen = self._seen.get((variant, name), ())
        ignored = [taken for taken in seen if not taken.as_asked]
        if not ignored or any(not same(taken.runs, ignored[0].runs) for taken in ignored):
            return value
        runs = ignored[0].runs
        everywhere = not is_number(value) and len({repr(taken.asked) for taken in ignored}) > 1
        near = [
            taken
            for taken in seen
            if not same(taken.asked, runs) and (everywhere or _same_side(taken.asked, value, runs))
        ]
        return runs if near and not any(taken.as_asked for taken in near) else value


def _same_side(left: FlagValue, right: FlagValue, of: FlagValue) -> bool:
    """Both below a value or both above it; without an order, whether they are the same."""
    if is_number(left) and is_number(right) and is_number(of):
        return (left < of) == (right < of)
    return same(left, right)
