"""A Space from its TOML text; `docs/space.md` describes the format."""

import re
import tomllib
from collections.abc import Mapping

from advisor.search.knob import Knob, KnobType, is_number, nearest, show
from advisor.search.known import KNOWN
from advisor.search.rule import OPERATORS, Flag, Rule
from advisor.search.space import Space, Variant
from advisor.terms.errors import SpaceError
from advisor.terms.flags import FlagValue

_KNOB_KEYS = ("values", "low", "high", "step", "log", "type", "when", "any_flag")
_VARIANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def parse_space(toml_text: str) -> Space:
    """Read a Space; raises SpaceError that names the part, the value and what is accepted."""
    try:
        document = tomllib.loads(toml_text)
    except tomllib.TOMLDecodeError as exc:
        raise SpaceError(f"space: not valid TOML: {exc}") from exc
    _only(document, ("knobs", "variants", "rules"), "space:")
    knobs = tuple(
        _knob(name, _as_table(body, f"space: knobs.{name}"))
        for name, body in _as_table(document.get("knobs", {}), "space: knobs").items()
    )
    variants = tuple(
        _variant(name, _as_table(body, f"space: variants.{name}"))
        for name, body in _as_table(document.get("variants", {}), "space: variants").items()
    )
    bodies = document.get("rules", [])
    if not isinstance(bodies, list):
        raise SpaceError("space: rules must be a list of tables, each under [[rules]]")
    # The names that a rule may use are known only from the rest of the Space.
    plain = Space(knobs, variants)
    rules = tuple(
        _rule(_as_table(body, f"space: rule {number}"), f"space: rule {number}:", plain)
        for number, body in enumerate(bodies, 1)
    )
    return Space(knobs, variants, rules)


def _knob(name: str, body: Mapping[str, object]) -> Knob:
    where = f"space: [knobs.{name}]"
    _only(body, _KNOB_KEYS, where)
    any_flag, log = (_as_switch(body, key, where) for key in ("any_flag", "log"))
    type_ = _knob_type(body.get("type"), where)
    when = _flags(body.get("when", {}), f"{where} when")
    if "values" in body:
        for key in ("low", "high", "step", "log"):
            if key in body:
                raise SpaceError(f"{where} has both values and {key}; only one of them may be")
        values = body["values"]
        if not isinstance(values, list):
            raise SpaceError(f"{where} values must be a list, got {values!r}")
        listed = [_as_flag_value(value, f"{where} values") for value in values]
        return Knob.of(name, listed, type=type_, when=when, any_flag=any_flag)
    low, high = _number(body, "low", where), _number(body, "high", where)
    if low is None or high is None:
        raise SpaceError(f"{where} needs either values, or low and high")
    step = _number(body, "step", where)
    return Knob.ranging(
        name, low, high, step=step, log=log, type=type_, when=when, any_flag=any_flag
    )


def _knob_type(word: object, where: str) -> KnobType | None:
    if word is None:
        return None
    if word not in tuple(KnobType):
        raise SpaceError(f"{where} type {word!r} is unknown; one of {', '.join(KnobType)}")
    return KnobType(str(word))


def _variant(name: str, body: Mapping[str, object]) -> Variant:
    where = f"space: [variants.{name}]"
    _only(body, ("model", "flags"), where)
    if not _VARIANT_NAME.fullmatch(name):
        raise SpaceError(f"{where} a variant's name has letters, digits, '.', '_' and '-' only")
    model = body.get("model")
    if model is not None and not (isinstance(model, str) and model.strip()):
        raise SpaceError(f"{where} model must be a checkpoint's name, got {model!r}")
    flags = _flags(body.get("flags", {}), f"{where} flags")
    return Variant(name, model, tuple(sorted(flags.items())))


def _rule(body: Mapping[str, object], where: str, space: Space) -> Rule:
    _only(body, ("left", "op", "right", "when"), where)
    for key in ("left", "op", "right"):
        if key not in body:
            raise SpaceError(f"{where} has no {key}; a rule is left, op and right")
    left, op = body["left"], body["op"]
    if not isinstance(left, str):
        raise SpaceError(f"{where} left must be the name of a flag, got {left!r}")
    if op not in OPERATORS:
        raise SpaceError(f"{where} op {op!r} is unknown; one of {' '.join(OPERATORS)}")
    right = _as_flag_value(body["right"], f"{where} right")
    when = _flags(body.get("when", {}), f"{where} when")
    operand = _operand(where, str(left), str(op), right, space)
    return Rule(left, str(op), operand, tuple(sorted(when.items())))


def _operand(where: str, left: str, op: str, right: FlagValue, space: Space) -> FlagValue | Flag:
    """A string is a flag's name where there is such a flag, else a word to compare with."""
    if not isinstance(right, str):
        return right
    if right in KNOWN or right in space.searched():
        return Flag(right)
    knob = next((knob for knob in space.knobs if knob.name == left), None)
    if op in ("==", "!=") and (knob is None or right in knob.values):
        return right
    raise SpaceError(f"{where} right names an unknown knob {right!r}; {nearest(right)}")


def _only(body: Mapping[str, object], keys: tuple[str, ...], where: str) -> None:
    for key in body:
        if key not in keys:
            raise SpaceError(f"{where} unknown key {key!r}; accepted: {', '.join(keys)}")


def _as_table(body: object, where: str) -> dict[str, object]:
    if not isinstance(body, dict):
        raise SpaceError(f"{where} must be a table, got {body!r}")
    return body


def _flags(body: object, where: str) -> dict[str, FlagValue]:
    return {
        name: _as_flag_value(value, f"{where}.{name}")
        for name, value in _as_table(body, where).items()
    }


def _as_flag_value(value: object, where: str) -> FlagValue:
    if isinstance(value, bool | int | float | str):
        return value
    raise SpaceError(f"{where}: {value!r} is no flag value; expected a number, string or switch")


def _as_switch(body: Mapping[str, object], key: str, where: str) -> bool:
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise SpaceError(f"{where} {key} must be true or false, got {value!r}")
    return value


def _number(body: Mapping[str, object], key: str, where: str) -> float | None:
    """None when it is not given; an int stays an int."""
    value = body.get(key)
    if value is None:
        return None
    if not is_number(value):
        got = show(value) if isinstance(value, str | bool) else repr(value)
        raise SpaceError(f"{where} {key} must be a number, got {got}")
    if value != value or value in (float("inf"), float("-inf")):
        raise SpaceError(f"{where} {key} {value} must be finite")
    return value
