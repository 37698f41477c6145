"""What the operator wants: metric, percentile, limit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from advisor.terms.errors import TargetError


class Metric(StrEnum):
    """What can be targeted; `measure.definitions` has the formulas."""

    TTFT = "ttft"
    ITL = "itl"
    TOKEN_ITL = "token_itl"
    TPOT = "tpot"
    E2E = "e2e"
    ERRORS = "errors"


class Unit(StrEnum):
    MS = "ms"
    S = "s"
    #: times the baseline's estimate
    RATIO = "x"
    PERCENT = "%"


class Verdict(StrEnum):
    """From a bound, never from a bare point estimate."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"


_TARGET = re.compile(
    r"\s*(?P<metric>[a-z_0-9]+)\s*(?::\s*p(?P<percentile>[0-9.]+))?\s*<=\s*"
    r"(?P<limit>[0-9.]+e[+-]?[0-9]+|[^a-z%\s]+)\s*(?P<unit>[a-zA-Z%]*)\s*",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan", re.ASCII | re.I)
_NS_PER = {Unit.MS: 1_000_000, Unit.S: 1_000_000_000}
#: The rarest sample that a percentile may be about, and the longest limit, in ns: 30 years
_RAREST_SHARE, _LONGEST_NS = 1e-9, 10**18
_LATENCIES = ", ".join(m for m in Metric if m is not Metric.ERRORS)


@dataclass(frozen=True, slots=True)
class Target:
    """`ttft:p95<=1000ms`: at most 5 % of TTFT samples may exceed 1000 ms."""

    metric: Metric
    #: None for the error rate
    percentile: float | None
    limit: float
    unit: Unit
    #: what the operator wrote when the limit was relative to the baseline
    asked: str | None = None

    @property
    def allowed_share(self) -> float:
        """The share of samples that may exceed the limit, 0..1."""
        if self.percentile is None:
            return self.limit / 100
        return round(1 - self.percentile / 100, 12)

    @property
    def limit_ns(self) -> int:
        """The limit in nanoseconds. Raises ValueError for a rate or a limit not yet resolved."""
        if self.unit not in _NS_PER:
            raise ValueError(f"{self} has no limit in time")
        return round(self.limit * _NS_PER[self.unit])

    @property
    def is_relative(self) -> bool:
        return self.unit is Unit.RATIO

    def resolved(self, baseline_ns: float) -> "Target":
        """This relative target as an absolute one, given the baseline's estimate."""
        limit_ms = round(self.limit * baseline_ns / 1e6, 3)
        return replace(self, limit=limit_ms, unit=Unit.MS, asked=str(self))

    def __str__(self) -> str:
        at = "" if self.percentile is None else f":p{self.percentile:.12g}"
        return f"{self.metric}{at}<={self.limit:.12g}{self.unit}"


#: Failures may never hide: this target is added unless the job names its own.
DEFAULT_ERRORS = Target(Metric.ERRORS, None, 0.1, Unit.PERCENT)


def parse_target(text: str) -> Target:
    """Read `metric:pP<=limit unit`; raises TargetError that names what is wrong."""
    found = _TARGET.fullmatch(text)
    if not found:
        raise TargetError(f"target {text!r}: expected e.g. 'ttft:p95<=1000ms' or 'errors<=0.1%'")
    metric = _metric(text, found["metric"].lower())
    limit = _number(text, "limit", found["limit"])
    unit = _unit(text, metric, found["unit"].lower())
    if limit < 0 or (limit == 0 and metric is not Metric.ERRORS):
        raise TargetError(f"target {text!r}: limit {found['limit']} must be above 0")
    if unit in _NS_PER and limit * _NS_PER[unit] > _LONGEST_NS:
        raise TargetError(f"target {text!r}: limit {found['limit']}{unit} must be at most 1e9s")
    percentile = _percentile(text, metric, found["percentile"])
    if metric is Metric.ERRORS and limit >= 100:
        raise TargetError(f"target {text!r}: limit {found['limit']}% must be below 100%")
    return Target(metric, percentile, limit, unit)


def _metric(text: str, word: str) -> Metric:
    try:
        return Metric(word)
    except ValueError:
        known = ", ".join(Metric)
        raise TargetError(f"target {text!r}: unknown metric {word!r}; one of {known}") from None


def _number(text: str, field: str, word: str) -> float:
    # float() reads more than a person writes: digits of other scripts, 1_000
    if not _PLAIN.fullmatch(word):
        raise TargetError(f"target {text!r}: {field} {word!r} is not a number")
    number = float(word)
    if number != number or number in (float("inf"), float("-inf")):
        raise TargetError(f"target {text!r}: {field} {word!r} must be finite")
    return number


def _unit(text: str, metric: Metric, word: str) -> Unit:
    allowed = (Unit.PERCENT,) if metric is Metric.ERRORS else (Unit.MS, Unit.S, Unit.RATIO)
    if word not in tuple(allowed):
        named = f"unknown unit {word!r}" if word else "the limit has no unit"
        accepted = ", ".join(allowed)
        raise TargetError(f"target {text!r}: {named}; accepted for {metric}: {accepted}")
    return Unit(word)


def _percentile(text: str, metric: Metric, word: str | None) -> float | None:
    if metric is Metric.ERRORS:
        if word is not None:
            raise TargetError(f"target {text!r}: errors is a rate and takes no percentile")
        return None
    if word is None:
        raise TargetError(f"target {text!r}: {metric} needs a percentile, e.g. {metric}:p95")
    percentile = _number(text, "percentile", word)
    if not 50 <= percentile <= 100 * (1 - _RAREST_SHARE):
        raise TargetError(
            f"target {text!r}: percentile p{word} must be from 50 to below 100 "
            "(p99.9999999 at most)"
        )
    return percentile


def parse_targets(texts: Sequence[str]) -> tuple[Target, ...]:
    """Several of them. Raises TargetError, also for two limits on one percentile."""
    targets = tuple(parse_target(text) for text in texts)
    for index, target in enumerate(targets):
        same = (target.metric, target.percentile)
        if any((t.metric, t.percentile) == same for t in targets[:index]):
            raise TargetError(f"target {target}: this metric and percentile has a limit already")
    return targets
