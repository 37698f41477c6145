"""Another load by the times of a recorded one: idle time cut, arrivals drawn anew, a ramp.

What moves is the start of a conversation or a request that stands alone; the later turns of a
conversation follow their start as long after it as they were recorded, since the people in it do
not read faster when more of them come.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from advisor.profile.arrivals import gamma_gaps, tick_ns
from advisor.profile.rescale import derived
from advisor.profile.rows import MAX_TIMESTAMP_MS
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request

#: Gaps that vary more come as a few bursts with silence between: no window is like another.
MOST_CV = 10.0
#: Nothing that could be served here; more is a mistake of unit.
MOST_RATE_RPS = 1e6
MOST_RAMP = 1000.0
#: Of NumPy's legacy generator.
MOST_SEED = 2**32 - 1


def cap_gaps(profile: Profile, most_s: float) -> Profile:
    """Cut the time between two arrivals, whosever they are, to `most_s` where it is longer.

    Raises ProfileError for a time that is not above 0.
    """
    if not (math.isfinite(most_s) and most_s > 0):
        raise ProfileError(f"most gap is {most_s} s; expected a number above 0")
    most_ns = round(most_s * 1e9)
    requests: list[Request] = []
    now_ns = before_ns = profile.requests[0].arrival_ns
    cut_ns = 0
    for request in profile.requests:
        gap_ns = request.arrival_ns - before_ns
        cut_ns += max(0, gap_ns - most_ns)
        now_ns += min(gap_ns, most_ns)
        before_ns = request.arrival_ns
        requests.append(replace(request, arrival_ns=now_ns))
    return derived(profile, requests, f"gaps cut to {most_s:g} s, {cut_ns / 1e9:.1f} s in all")


def redraw(profile: Profile, *, cv: float, rate_rps: float | None, seed: int) -> Profile:
    """The same requests in the same order, at the moments of a renewal process with gamma gaps.

    `cv` is the standard deviation of the gaps over their mean, 1 is Poisson. `rate_rps` counts all
    requests, later turns too; None: as recorded. Raises ProfileError for numbers that make no
    sense, and for a profile with a single start.
    """
    if not 0 < cv <= MOST_CV:
        raise ProfileError(f"cv is {cv:g}; expected above 0, at most {MOST_CV:g}")
    if rate_rps is not None and not 0 < rate_rps <= MOST_RATE_RPS:
        raise ProfileError(
            f"rate is {rate_rps:g} requests/s; expected above 0, at most {MOST_RATE_RPS:g}"
        )
    if not 0 <= seed <= MOST_SEED:
        raise ProfileError(f"seed is {seed}; expected an integer from 0 to {MOST_SEED}")
    starts = _starts(profile)
    first_ns = starts[0].arrival_ns
    mean_s = _mean_gap_s(profile, starts, rate_rps)
    now_s, moments = 0.0, [first_ns]
    for gap_s in gamma_gaps(seed, len(starts) - 1, mean_s, cv):
        now_s += gap_s
        moments.append(first_ns + tick_ns(now_s))
    rate = len(profile.requests) / len(starts) / mean_s
    return _moved(
        profile,
        starts,
        moments,
        f"arrivals drawn at {rate:.4g} requests/s, cv {cv:g}, seed {seed}",
    )


def ramp(profile: Profile, factor: float) -> Profile:
    """Let the rate of starts change evenly to `factor` times its first value; nothing else.

    Starts keep their order, number and total time: recorded time u becomes t with
    u = (t + (factor - 1) t^2 / 2) / ((factor + 1) / 2), both as shares of the whole. Raises
    ProfileError for a factor that is not above 0, or above 1,000.
    """
    if not 0 < factor <= MOST_RAMP:
        raise ProfileError(f"ramp is {factor:g}; expected above 0, at most {MOST_RAMP:g}")
    starts = _starts(profile)
    first_ns = starts[0].arrival_ns
    whole_ns = max(1, starts[-1].arrival_ns - first_ns)
    shares = [(start.arrival_ns - first_ns) / whole_ns for start in starts]
    moments = [
        # the root of the formula above in the form that has no 0 / 0 at factor 1
        first_ns + round(whole_ns * (factor + 1) * u / (1 + math.sqrt(1 + (factor**2 - 1) * u)))
        for u in shares
    ]
    return _moved(profile, starts, moments, f"rate ramped to {factor:g} times its start")


def without_pauses(profile: Profile) -> Profile:
    """Every turn at its recorded moment, whatever became of the answer before it.

    Raises ProfileError when no turn has a pause.
    """
    if not has_pauses(profile):
        raise ProfileError(f"profile {profile.name} has no pause to leave out")
    requests = [replace(request, pause_ns=None) for request in profile.requests]
    return derived(profile, requests, "pauses left out")


def has_pauses(profile: Profile) -> bool:
    return any(request.pause_ns is not None for request in profile.requests)


def _starts(profile: Profile) -> list[Request]:
    """First turns and requests without a session, in time order."""
    seen: set[str] = set()
    starts = []
    for request in profile.requests:
        if request.session_id is None:
            starts.append(request)
        elif request.session_id not in seen:
            seen.add(request.session_id)
            starts.append(request)
    return starts


def _mean_gap_s(profile: Profile, starts: Sequence[Request], rate_rps: float | None) -> float:
    if len(starts) < 2:
        raise ProfileError(
            f"profile {profile.name} has {len(starts)} start of a conversation; expected 2 or more"
        )
    if rate_rps is not None:
        return len(profile.requests) / len(starts) / rate_rps
    span_s = (starts[-1].arrival_ns - starts[0].arrival_ns) / 1e9
    if not span_s:
        raise ProfileError(
            f"profile {profile.name} has all its starts at one moment, so no rate; expected a rate"
        )
    return span_s / (len(starts) - 1)


def _moved(
    profile: Profile, starts: Sequence[Request], moments: Sequence[int], how: str
) -> Profile:
    """Each start at its new moment, its conversation with it."""
    if moments[-1] > MAX_TIMESTAMP_MS * 1_000_000 - profile.duration_ns:
        raise ProfileError(
            f"profile {profile.name} would last {moments[-1] / 1e9:.3g} s; expected a higher rate"
        )
    by_session: dict[str, int] = {}
    alone: list[int] = []
    for start, moment in zip(starts, moments, strict=True):
        if start.session_id is None:
            alone.append(moment)
        else:
            by_session[start.session_id] = moment - start.arrival_ns
    left = iter(alone)
    requests = [
        replace(
            request,
            arrival_ns=next(left)
            if request.session_id is None
            else request.arrival_ns + by_session[request.session_id],
        )
        for request in profile.requests
    ]
    requests.sort(key=lambda request: request.arrival_ns)
    return derived(profile, requests, how)
