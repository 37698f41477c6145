"""A profile's windows: which slices the search may see, and which are held out from it."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request, Window, WindowRole, Windows


def split(profile: Profile, *, windows: int, rounds: int, gap_ns: int) -> Windows:
    """Cut the profile into equal windows, interleaved, with a gap before each.

    In time they follow the pattern one search window, then one held-out window of each round,
    `windows` times over, so that every pool of windows sees the whole recording.
    `held_out[r * windows:(r + 1) * windows]` are the windows of confirmation round r. The gap
    belongs to no window; the lead-in plays it. A gap longer than the longest request keeps one
    window's load out of the next.

    Raises ProfileError when the profile is so short that windows would be shorter than the gap.
    """
    for field, value, least in (
        ("windows", windows, 1),
        ("rounds", rounds, 0),
        ("gap_ns", gap_ns, 0),
    ):
        if value < least:
            raise ProfileError(f"{field} is {value}; expected an integer of {least} or more")
    cycle = 1 + rounds
    count = windows * cycle
    period_ns = _period_ns(profile, count, gap_ns)
    start_ns = profile.requests[0].arrival_ns
    spans = [
        (start_ns + i * period_ns + gap_ns, start_ns + (i + 1) * period_ns) for i in range(count)
    ]
    return Windows(
        search=tuple(
            Window(f"search-{k + 1}", WindowRole.SEARCH, *spans[k * cycle]) for k in range(windows)
        ),
        held_out=tuple(
            Window(f"held-out-{r + 1}-{k + 1}", WindowRole.HELD_OUT, *spans[k * cycle + 1 + r])
            for r in range(rounds)
            for k in range(windows)
        ),
        gap_ns=gap_ns,
    )


def _period_ns(profile: Profile, count: int, gap_ns: int) -> int:
    """How long a window and the gap before it are together."""
    period_ns = profile.duration_ns // count
    if period_ns - gap_ns < max(gap_ns, 1):
        raise ProfileError(
            f"profile {profile.name} is {profile.duration_ns / 1e9:.1f} s long, too short for "
            f"{count} windows with gaps of {gap_ns / 1e9:.1f} s; expected at least "
            f"{max(count * 2 * gap_ns, count) / 1e9:.1f} s, fewer windows or a shorter gap"
        )
    return period_ns


@dataclass(frozen=True, slots=True)
class Slice:
    """What of a profile belongs to one window."""

    #: (row of the profile from 0, its request), arriving before the window, in time order
    lead_in: tuple[tuple[int, Request], ...]
    #: the same, arriving in the window
    window: tuple[tuple[int, Request], ...]
    #: requests in the same time whose session began earlier; they are in neither
    left_out: int

    @property
    def requests(self) -> tuple[Request, ...]:
        """The window's own."""
        return tuple(request for _, request in self.window)


def slice_of(profile: Profile, window: Window, lead_in_ns: int = 0) -> Slice:
    """The requests of a window and of the `lead_in_ns` before it, sessions whole.

    A session belongs to where it began: its requests are played by the window (lead-in
    included) that its first request falls into, up to the window's end, and by no other; so
    no conversation is seen by both search and confirmation. Requests without a session stand
    alone. `lead_in_ns` must not exceed the gap before the window, or it would reach into the
    window before.
    """
    requests = profile.requests
    low_ns = window.start_ns - lead_in_ns
    low = _first_at(requests, low_ns)
    middle = _first_at(requests, window.start_ns)
    high = _first_at(requests, window.end_ns)
    earlier = {request.session_id for request in requests[:low]} - {None}
    rows = [
        (row, requests[row]) for row in range(low, high) if requests[row].session_id not in earlier
    ]
    return Slice(
        lead_in=tuple(pair for pair in rows if pair[0] < middle),
        window=tuple(pair for pair in rows if pair[0] >= middle),
        left_out=high - low - len(rows),
    )


def _first_at(requests: Sequence[Request], moment_ns: int) -> int:
    """The first row that arrives at or after the moment."""
    return bisect_left(requests, moment_ns, key=lambda request: request.arrival_ns)
