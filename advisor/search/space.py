"""The Space: knobs, variants and rules, and every valid setting in it."""

import graphlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from advisor.search.knob import Knob, check_value, check_word, nearest, same, show
from advisor.search.known import KNOWN
from advisor.search.rule import OPERATORS, VLLM_RULES, Flag, Rule
from advisor.terms.errors import SpaceError
from advisor.terms.flags import FlagValue
from advisor.terms.setting import Setting

#: Combinations, valid or not; all of them are held in memory while a job runs.
MOST_COMBINATIONS = 200_000


@dataclass(frozen=True, slots=True)
class Variant:
    """A named pair of checkpoint and flags: most quantisations are another checkpoint."""

    name: str
    #: None: the job's model
    model: str | None = None
    #: sorted by name
    flags: tuple[tuple[str, FlagValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Space:
    """All that may be tried. Raises SpaceError when its parts contradict each other."""

    knobs: tuple[Knob, ...]
    variants: tuple[Variant, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        if not self.knobs and not self.variants:
            raise SpaceError("space: nothing to search; it needs a [knobs.NAME] or two variants")
        _check_unique("knob", [knob.name for knob in self.knobs])
        _check_unique("variant", [variant.name for variant in self.variants])
        for variant in self.variants:
            self._check_variant(variant)
        for knob in self.knobs:
            self._check_condition(knob)
        for rule in self.rules:
            self._check_rule(rule)
        self.parents_first()

    def parents_first(self) -> tuple[Knob, ...]:
        """The knobs, each after the ones that its condition names."""
        by_name = {knob.name: knob for knob in self.knobs}
        graph = {knob.name: [name for name, _ in knob.when] for knob in self.knobs}
        try:
            order = tuple(graphlib.TopologicalSorter(graph).static_order())
        except graphlib.CycleError as exc:
            circle = " -> ".join(exc.args[1])
            raise SpaceError(f"space: the conditions of {circle} go in a circle") from exc
        return tuple(by_name[name] for name in order)

    def searched(self) -> frozenset[str]:
        """Flags that a knob or a variant sets: none of them is fixed by the baseline."""
        names = {name for variant in self.variants for name, _ in variant.flags}
        return frozenset(names | {knob.name for knob in self.knobs})

    def settings(self, model: str, fixed: Mapping[str, FlagValue]) -> list[Setting]:
        """Every valid setting, in a fixed order: variants as written, the last knob fastest.

        `fixed` are the baseline's flags; those that the Space searches are left out of it.
        Raises SpaceError when no setting is valid, or when there are too many to enumerate.
        """
        rules = (*VLLM_RULES, *self.rules)
        broken: dict[str, None] = {}
        found: dict[str, Setting] = {}
        for count, setting in enumerate(self._all(model, fixed), 1):
            if count > MOST_COMBINATIONS:
                raise SpaceError(
                    f"space: more than {MOST_COMBINATIONS} combinations; list fewer values"
                )
            flags = dict(setting.flags)
            failed = [str(rule) for rule in rules if not rule.holds(flags)]
            if failed:
                broken.update(dict.fromkeys(failed))
            else:
                found.setdefault(setting.key, setting)
        if not found:
            raise SpaceError(f"space: no valid setting; every one breaks {' or '.join(broken)}")
        return list(found.values())

    def _all(self, model: str, fixed: Mapping[str, FlagValue]) -> Iterator[Setting]:
        searched = self.searched()
        kept = {name: value for name, value in fixed.items() if name not in searched}
        knobs = self.parents_first()
        for variant in self.variants or (None,):
            set_by = dict(variant.flags) if variant else {}
            for chosen in _assignments(knobs, {}):
                yield Setting.of(
                    (variant.model if variant else None) or model,
                    {**kept, **set_by, **chosen},
                    knobs=(*set_by, *chosen),
                    variant=variant.name if variant else None,
                )

    def to_toml(self) -> str:
        """The file that `parse_space` reads back as an equal Space; ranges are listed out."""
        parts = [_knob_toml(knob) for knob in self.knobs]
        for variant in self.variants:
            model = [f"model = {show(variant.model)}"] if variant.model else []
            lines = [
                f"[variants.{show(variant.name)}]",
                *model,
                f"flags = {_table(variant.flags)}",
            ]
            parts.append("\n".join(lines))
        parts += [_rule_toml(rule) for rule in self.rules]
        return "\n\n".join(parts) + "\n"

    def _check_variant(self, variant: Variant) -> None:
        where = f"space: [variants.{variant.name}]"
        knobs = {knob.name for knob in self.knobs}
        for name, value in variant.flags:
            check_word(where, name)
            check_value(where, name, value)
            if name in knobs:
                raise SpaceError(f"{where} sets {name}, which is a knob; only one of them may")
        for other in self.variants:
            alike = (other.model, other.flags) == (variant.model, variant.flags)
            if alike and other.name != variant.name:
                raise SpaceError(f"{where} is the same as variant {other.name!r}")

    def _check_condition(self, knob: Knob) -> None:
        for name, value in knob.when:
            where = f"space: [knobs.{knob.name}] when"
            parent = next((other for other in self.knobs if other.name == name), None)
            if parent is None:
                raise SpaceError(f"{where} names {name}, which is no knob of this Space")
            if not any(same(value, each) for each in parent.values):
                listed = ", ".join(show(each) for each in parent.values)
                raise SpaceError(f"{where} {name} = {show(value)}: its values are {listed}")

    def _check_rule(self, rule: Rule) -> None:
        where = f"space: rule '{rule}'"
        if rule.op not in OPERATORS:
            raise SpaceError(f"{where} op {rule.op!r} is unknown; one of {' '.join(OPERATORS)}")
        names = [rule.left, *([rule.right.name] if isinstance(rule.right, Flag) else [])]
        for name in [*names, *(name for name, _ in rule.when)]:
            if name not in KNOWN and name not in self.searched():
                raise SpaceError(f"{where} names an unknown knob {name!r}; {nearest(name)}")
        if rule.op in ("==", "!="):
            return
        if isinstance(rule.right, str | bool):
            raise SpaceError(f"{where} {show(rule.right)} has no order; use == or !=")
        for knob in self.knobs:
            if knob.name in names and not knob.type.is_ordered:
                raise SpaceError(f"{where} {knob.name} is {knob.type} and has no order")


def _assignments(
    knobs: Sequence[Knob], chosen: dict[str, FlagValue]
) -> Iterator[dict[str, FlagValue]]:
    if not knobs:
        yield chosen
        return
    knob, rest = knobs[0], knobs[1:]
    if not knob.applies(chosen):
        yield from _assignments(rest, chosen)
        return
    for value in knob.values:
        yield from _assignments(rest, {**chosen, knob.name: value})


def _check_unique(what: str, names: Sequence[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise SpaceError(f"space: {what} {name!r} is there twice")


def _table(pairs: Sequence[tuple[str, FlagValue]]) -> str:
    inside = ", ".join(f"{name} = {show(value)}" for name, value in pairs)
    return f"{{ {inside} }}" if inside else "{}"


def _knob_toml(knob: Knob) -> str:
    values = ", ".join(show(value) for value in knob.values)
    lines = [f"[knobs.{knob.name}]", f'type = "{knob.type}"', f"values = [{values}]"]
    if knob.when:
        lines.append(f"when = {_table(knob.when)}")
    if knob.any_flag:
        lines.append("any_flag = true")
    return "\n".join(lines)


def _rule_toml(rule: Rule) -> str:
    right = show(rule.right.name if isinstance(rule.right, Flag) else rule.right)
    lines = ["[[rules]]", f'left = "{rule.left}"', f'op = "{rule.op}"', f"right = {right}"]
    return "\n".join([*lines, *([f"when = {_table(rule.when)}"] if rule.when else [])])
