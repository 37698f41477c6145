"""Whether this machine's load generator can carry a job's load, asked before anything starts."""

from collections import Counter
from collections.abc import Awaitable, Callable

from advisor.replay.capacity import Carried, carried_per_s
from advisor.terms.profile import Profile

#: Any machine that could run the job at all carries this much; below it nothing is tried.
SURELY_PER_S = 1_000
#: Long enough that one long answer is no burst, short enough that a burst is.
_BIN_S = 10

#: Tries rising rates up to the one given.
Measure = Callable[[float], Awaitable[list[Carried]]]


async def client_warning(profile: Profile, multiple: float, measure: Measure) -> str | None:
    """One line for a person when the load at this multiple may be more than is carried.

    A warning, not a refusal: each replay's audit decides, and one whose client was late is void.
    """
    needed_per_s = peak_tokens_per_s(profile) * multiple
    if needed_per_s <= SURELY_PER_S:
        return None
    carried = carried_per_s(await measure(needed_per_s))
    if carried >= needed_per_s:
        return None
    return (
        f"this machine's load generator carries {carried:,} events/s, the profile at {multiple:g} "
        f"times its load may need {needed_per_s:,.0f}: replays may be void as client_bound"
    )


def peak_tokens_per_s(profile: Profile) -> float:
    """Output tokens of the busiest ten seconds, per second: at most one event each."""
    bins: Counter[int] = Counter()
    for request in profile.requests:
        bins[request.arrival_ns // (_BIN_S * 1_000_000_000)] += request.output_length
    return max(bins.values()) / _BIN_S
