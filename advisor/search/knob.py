"""One tunable flag: its type, its values, and when it is there at all."""

import difflib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TypeGuard

from advisor.search.known import KNOWN, Kind
from advisor.terms.errors import SpaceError
from advisor.terms.flags import OWNED, FlagValue

#: More values than any search can tell apart; stops a mistyped step from filling the memory.
MOST_VALUES = 10_000

_WORD = re.compile(r"[a-z][a-z0-9_]*")


class KnobType(StrEnum):
    """How values relate: integer and float have an order that a sampler may use."""

    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    CATEGORICAL = "categorical"

    @property
    def is_ordered(self) -> bool:
        return self in (KnobType.INTEGER, KnobType.FLOAT)


def is_number(value: object) -> TypeGuard[int | float]:
    """An int or a float; a bool is an int in Python, but not here."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(left: FlagValue | None, right: FlagValue | None) -> bool:
    """Whether two flag values mean the same: 1 and 1.0 do, 1 and true do not."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


@dataclass(frozen=True, slots=True)
class Knob:
    """One flag that the search may change; build it with `Knob.of` or `Knob.ranging`."""

    #: vLLM's flag word with underscores
    name: str
    type: KnobType
    #: every value that may be tried; ascending where the type has an order
    values: tuple[FlagValue, ...]
    #: (another knob, its value), all of which must hold, else the flag is not given at all
    when: tuple[tuple[str, FlagValue], ...] = ()
    #: True when the name need not be one of the known flags
    any_flag: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        values: Sequence[FlagValue],
        *,
        type: KnobType | None = None,
        when: Mapping[str, FlagValue] | None = None,
        any_flag: bool = False,
    ) -> "Knob":
        """From listed values, the type inferred where none is given.

        Raises SpaceError for an unknown or owned name, no values, mixed types, values that
        vLLM's flag does not take, or a value listed twice.
        """
        where = f"space: [knobs.{name}]"
        _check_name(where, name, any_flag)
        if not values:
            raise SpaceError(f"{where} values is empty; at least one value is needed")
        for value in values:
            check_value(where, name, value)
        found = type or _infer(where, values)
        ready = _convert(where, name, found, values)
        for (_, value), times in Counter((isinstance(v, bool), v) for v in ready).items():
            if times > 1:
                raise SpaceError(f"{where} value {show(value)} is listed twice")
        return cls(name, found, ready, tuple(sorted((when or {}).items())), any_flag)

    @classmethod
    def ranging(
        cls,
        name: str,
        low: float,
        high: float,
        *,
        step: float | None = None,
        log: bool = False,
        type: KnobType | None = None,
        when: Mapping[str, FlagValue] | None = None,
        any_flag: bool = False,
    ) -> "Knob":
        """low, low + step, …, or with `log` low, 2 low, 4 low, …, as far as high.

        Raises SpaceError as `of` does, and for bounds or a step that make no range.
        """
        where = f"space: [knobs.{name}]"
        if low > high:
            raise SpaceError(f"{where} low {low} is above high {high}")
        if log == (step is not None):
            raise SpaceError(f"{where} a range takes either step or log = true")
        if log and low <= 0:
            raise SpaceError(f"{where} low {low} must be above 0 with log = true")
        if step is not None and step <= 0:
            raise SpaceError(f"{where} step {step} must be above 0")
        values = _doubling(low, high) if step is None else _stepping(where, low, high, step)
        return cls.of(name, values, type=type, when=when, any_flag=any_flag)

    def applies(self, chosen: Mapping[str, FlagValue]) -> bool:
        """Whether the flag is given at all, the other knobs being as chosen."""
        return all(same(chosen.get(name), value) for name, value in self.when)


def _check_name(where: str, name: str, any_flag: bool) -> None:
    if not any_flag and name not in KNOWN and name not in OWNED:
        raise SpaceError(f"{where} unknown knob; {nearest(name)} (any_flag = true permits it)")
    check_word(where, name)


def check_word(where: str, name: str) -> None:
    """Raises SpaceError for what is no flag's word, or a flag that Advisor sets itself."""
    if not _WORD.fullmatch(name):
        raise SpaceError(f"{where} {name!r} is no flag word; expected e.g. max_num_seqs")
    if name in OWNED:
        raise SpaceError(f"{where} {name} is set by Advisor on every launch; leave it out")


def nearest(name: str) -> str:
    """`did you mean …?`, for an error message."""
    found = difflib.get_close_matches(name.lower().replace("-", "_"), KNOWN, n=1)
    return f"did you mean {found[0]}?" if found else "it is no known `vllm serve` flag"


def check_value(where: str, name: str, value: FlagValue) -> None:
    """Raises SpaceError, which begins with `where`, for a value that the flag does not take."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(f"{where} value {value} must be finite")
    kind = KNOWN.get(name)
    if kind is not None and not kind.accepts(value):
        raise SpaceError(f"{where} value {show(value)}: --{name.replace('_', '-')} takes {kind}")


def _infer(where: str, values: Sequence[FlagValue]) -> KnobType:
    if all(isinstance(value, bool) for value in values):
        return KnobType.BOOLEAN
    if all(isinstance(value, str) for value in values):
        return KnobType.CATEGORICAL
    if all(is_number(value) for value in values):
        whole = all(isinstance(value, int) for value in values)
        return KnobType.INTEGER if whole else KnobType.FLOAT
    listed = ", ".join(show(value) for value in values)
    raise SpaceError(f"{where} values {listed} mix types; all must be of one type")


def _convert(
    where: str, name: str, type_: KnobType, values: Sequence[FlagValue]
) -> tuple[FlagValue, ...]:
    """Sorted where there is an order; floats are floats even when they were written whole."""
    if type_ is KnobType.CATEGORICAL:
        return tuple(values)
    for value in values:
        whole = isinstance(value, int)
        fits = isinstance(value, bool) if type_ is KnobType.BOOLEAN else is_number(value)
        if not fits or (type_ is KnobType.INTEGER and not whole):
            raise SpaceError(f"{where} value {show(value)} is no {type_}, as its type says")
    if type_ is KnobType.BOOLEAN:
        return tuple(values)
    # A share written as `1` is the float 1.0: one spelling, one launched command.
    as_float = type_ is KnobType.FLOAT or KNOWN.get(name) is Kind.SHARE
    return tuple(sorted(float(value) if as_float else int(value) for value in values))


def _stepping(where: str, low: float, high: float, step: float) -> list[FlagValue]:
    # In decimal, since 0.8 + 0.05 + 0.05 + 0.05 in binary is not the 0.95 that was meant.
    first, last, by = (Decimal(str(number)) for number in (low, high, step))
    count = int((last - first) / by) + 1
    if count > MOST_VALUES:
        raise SpaceError(f"{where} step {step} gives more than {MOST_VALUES} values")
    whole = all(isinstance(number, int) for number in (low, high, step))
    numbers = [first + by * position for position in range(count)]
    return [int(number) if whole else float(number) for number in numbers]


def _doubling(low: float, high: float) -> list[FlagValue]:
    values: list[FlagValue] = []
    while low <= high:
        values.append(low)
        low *= 2
    return values


def show(value: FlagValue) -> str:
    """As TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        plain = (c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped)
        return f'"{"".join(plain)}"'
    return repr(value)
