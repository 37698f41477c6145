"""Whether a plan can decide its targets at all, asked before the first launch."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from advisor.terms.errors import TargetError
from advisor.terms.target import Metric, Target

#: Exceedances expected at the limit of a per-request metric: 300 requests for a p95, 1,500 for a
#: p99. The floors for one-sided 95 % are 59 and 299 independent samples (0.95^59 and 0.99^299 are
#: 0.05); they allow not one exceedance, so they have no power. Five times that proves a setting
#: with half of the allowed share.
EXPECTED_OVER = 15.0
#: The same for pooled gaps in independent ones: half, since a stall adds its gaps in one clump
#: and a setting that is good enough hardly has any.
EXPECTED_GAPS_OVER = 7.5
#: Pooled gaps per independent one, for planning. In simulated queues the design effect of ITL p99
#: was 12 to 28 at light to medium load and 50 to 300 near saturation, where no replay of
#: affordable length decides.
GAPS_PER_INDEPENDENT = 15.0
#: A few long requests hold many gaps, but show only few moments of the load.
LEAST_REQUESTS_FOR_GAPS = 200
#: Blocks of fewer windows cannot show how windows differ.
LEAST_WINDOWS = 3

_GAP_METRICS = (Metric.ITL, Metric.TOKEN_ITL)


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """What the windows of one verdict hold together, at the job's load."""

    requests: int
    #: output tokens - 1, summed over the requests
    gaps: int
    windows: int
    #: of the whole profile, so that a length that would do can be named
    profile_s: float


def check_power(targets: Sequence[Target], planned: PlannedSample, confidence: float) -> None:
    """Raise TargetError for the first target that the plan cannot decide.

    The message names the target, what there is, what it needs, and the profile length that would
    do at the same rate of requests.
    """
    if planned.windows < LEAST_WINDOWS:
        raise TargetError(
            f"windows {planned.windows}: a verdict pools at least {LEAST_WINDOWS} windows"
        )
    for target in targets:
        if target.metric is Metric.ERRORS:
            _check_errors(target, planned, confidence)
        else:
            _check_latency(target, planned)


def provable_error_limit(requests: int, confidence: float) -> float:
    """The smallest error limit, in %, that so many requests prove when none fails.

    Clopper and Pearson's bound for no events, 1 - (1 - confidence)^(1/n), rounded up to 0.0001 %.
    Raises ValueError without requests.
    """
    if requests < 1:
        raise ValueError(f"requests {requests} must be at least 1")
    share = -math.expm1(math.log1p(-confidence) / requests)
    return math.ceil(share * 1e6) / 1e4


def requests_needed(target: Target) -> int:
    """Requests that the pooled windows must hold for a latency target."""
    if target.metric in _GAP_METRICS:
        return LEAST_REQUESTS_FOR_GAPS
    return math.ceil(round(EXPECTED_OVER / target.allowed_share, 6))


def gaps_needed(target: Target) -> int:
    """Gaps that the pooled windows must hold; 0 for a per-request metric."""
    if target.metric not in _GAP_METRICS:
        return 0
    return math.ceil(round(EXPECTED_GAPS_OVER / target.allowed_share * GAPS_PER_INDEPENDENT, 6))


def _check_latency(target: Target, planned: PlannedSample) -> None:
    wants = {
        "requests": (planned.requests, requests_needed(target)),
        "gaps between tokens": (planned.gaps, gaps_needed(target)),
    }
    short = {name: pair for name, pair in wants.items() if pair[0] < pair[1]}
    if not short:
        return
    has = " and ".join(f"{have} {name}" for name, (have, _) in short.items())
    needs = " and ".join(f"{need} {name}" for name, (_, need) in short.items())
    raise TargetError(
        f"target {target}: the {planned.windows} windows hold {has}, a verdict on "
        f"p{target.percentile:g} needs about {needs}; {_length(planned, short.values())}"
    )


def _check_errors(target: Target, planned: PlannedSample, confidence: float) -> None:
    have, allowed = planned.requests, target.allowed_share
    if have and provable_error_limit(have, confidence) <= target.limit:
        return
    if allowed == 0:
        raise TargetError(f"target {target}: no number of requests proves that none ever fails")
    need = math.ceil(math.log1p(-confidence) / math.log1p(-allowed))
    proves = f"errors<={provable_error_limit(have, confidence):g}%" if have else "nothing"
    raise TargetError(
        f"target {target}: the {planned.windows} windows hold {have} requests, which prove "
        f"{proves} at best; it needs {need}; {_length(planned, [(have, need)])}"
    )


def _length(planned: PlannedSample, wants: Iterable[tuple[int, int]]) -> str:
    pairs = list(wants)
    if any(have == 0 for have, _ in pairs):
        return "no length of this profile would do"
    factor = max(need / have for have, need in pairs)
    return (
        f"a profile of about {math.ceil(planned.profile_s * factor)} s would do, "
        f"this one lasts {planned.profile_s:.0f} s"
    )
