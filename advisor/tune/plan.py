"""What is settled before the first launch: windows, and whether they can decide the targets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.measure.looks import level
from advisor.measure.power import PlannedSample, check_power, provable_error_limit
from advisor.profile.window import slice_of, split
from advisor.terms.errors import ProfileError
from advisor.terms.job import JobSpec
from advisor.terms.profile import Profile, Window, Windows
from advisor.terms.target import DEFAULT_ERRORS, Metric, Target, Unit
from advisor.tune.confirmation import claims

#: The longest request is taken to last its output length times this; real ITL targets lie
#: around it, and the gap only has to keep one window's load out of the next.
_ASSUMED_ITL_S = 0.02
#: A lead-in fills caches and queue, which takes some seconds however short the answers are.
_LEAST_GAP_S = 5.0


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """How this profile will be used, and the targets in the form that it can decide."""

    windows: Windows
    targets: tuple[Target, ...]


def plan_split(profile: Profile, spec: JobSpec) -> SplitPlan:
    """Split the profile and check its power.

    Raises TargetError for a target that the profile is too short to decide, naming the length
    that could, and ProfileError when it is too short to be split at all.
    """
    gap = gap_ns(profile, spec)
    windows = split(profile, windows=spec.windows, rounds=spec.rounds, gap_ns=gap)
    size = _smallest_pool(profile, windows, spec)
    confidence = level(spec.confidence, claims(spec))
    targets = _with_errors(spec.targets, size.requests, confidence)
    planned = PlannedSample(
        requests=size.requests,
        gaps=size.gaps,
        windows=spec.windows,
        profile_s=profile.duration_ns / 1e9,
    )
    check_power(targets, planned, confidence)
    return SplitPlan(windows, targets)


def gap_ns(profile: Profile, spec: JobSpec) -> int:
    """Between windows: longer than the longest request is expected to last.

    In a profile that is short for its longest request it is a third of the time there is for a
    window and its gap. One stray long answer would else refuse ten minutes of load; its tail then
    may reach into the next window of the recording, but never of a replay, which plays its own
    window's requests alone.
    """
    longest_tokens = max(request.output_length for request in profile.requests)
    period_s = profile.duration_ns / 1e9 / (spec.windows * (1 + spec.rounds))
    expected_s = min(longest_tokens * _ASSUMED_ITL_S, period_s / 3)
    return round(max(_LEAST_GAP_S, expected_s) * 1e9)


@dataclass(frozen=True, slots=True)
class _Size:
    requests: int
    gaps: int


def _smallest_pool(profile: Profile, windows: Windows, spec: JobSpec) -> _Size:
    """Of the search's windows and of each confirmation round's, at the job's load."""
    count = spec.windows
    held_out = windows.held_out
    pools = [windows.search] + [held_out[i : i + count] for i in range(0, len(held_out), count)]
    sizes = [_size(profile, pool, spec.load) for pool in pools]
    return _Size(min(size.requests for size in sizes), min(size.gaps for size in sizes))


def _size(profile: Profile, pool: Sequence[Window], load: float) -> _Size:
    outputs = []
    for window in pool:
        found = [request.output_length for request in slice_of(profile, window).requests]
        if not found:
            raise ProfileError(f"profile {profile.name}: no request begins in {window.name}")
        outputs += found
    return _Size(math.floor(len(outputs) * load), math.floor((sum(outputs) - len(outputs)) * load))


def _with_errors(asked: Sequence[Target], requests: int, confidence: float) -> tuple[Target, ...]:
    """Failures are always a target; the default one is what this many requests can prove."""
    if any(target.metric is Metric.ERRORS for target in asked):
        return tuple(asked)
    provable = provable_error_limit(requests, confidence)
    if provable <= DEFAULT_ERRORS.limit:
        return (*asked, DEFAULT_ERRORS)
    # rounded up, so that no failure at all is enough
    limit = math.ceil(provable * 100) / 100
    return (*asked, Target(Metric.ERRORS, None, limit, Unit.PERCENT, str(DEFAULT_ERRORS)))
