"""Settings between one and the current one: each of its changes taken back, one at a time."""

from collections.abc import Iterator

from advisor.search.space import Space, Variant
from advisor.terms.flags import FlagValue
from advisor.terms.setting import Setting


def simpler(setting: Setting, baseline: Setting, space: Space) -> Iterator[Setting]:
    """`setting` with one of its changes against the baseline as it was, in order of the flags.

    A variant is taken back as a whole: its checkpoint and its flags belong together.
    """
    flags, before = dict(setting.flags), dict(baseline.flags)
    variant = next((each for each in space.variants if each.name == setting.variant), None)
    owned = {name for each in space.variants for name, _ in each.flags}
    for name in sorted(flags.keys() | before.keys()):
        if name not in owned and flags.get(name) != before.get(name):
            changed = _with(flags, name, before.get(name))
            yield Setting.of(setting.model, changed, setting.knobs, setting.variant)
    if variant is not None and _differs(variant, setting, baseline):
        kept = {name: value for name, value in flags.items() if name not in owned}
        kept |= {name: value for name, value in before.items() if name in owned}
        yield Setting.of(baseline.model, kept, setting.knobs, baseline.variant)


def _with(flags: dict[str, FlagValue], name: str, value: FlagValue | None) -> dict[str, FlagValue]:
    others = {other: kept for other, kept in flags.items() if other != name}
    return others if value is None else {**others, name: value}


def _differs(variant: Variant, setting: Setting, baseline: Setting) -> bool:
    return setting.model != baseline.model or any(
        setting.get(name) != baseline.get(name) for name, _ in variant.flags
    )
