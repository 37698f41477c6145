"""Other recordings that the same traffic could have given: segments of one, drawn at random."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from advisor.profile.rows import fingerprint
from advisor.terms.profile import Profile, Request

#: Ids of one copy of a session lie this far from those of any other.
_APART = 1 << 40


def resampled(profile: Profile, length_ns: int, segment_ns: int, seed: int) -> Profile:
    """As long as asked, of segments drawn with replacement (a block bootstrap of the arrivals).

    A session comes whole, with the segment that it begins in, however long it lasts; a request
    without one stands alone. Segments should be longer than a burst, and short enough that there
    are many. What different sessions share, such as a system prompt, they go on sharing; what one
    alone holds becomes new with each copy, so that no copy finds another's prompts in the cache.
    """
    random, sessions = Random(seed), _sessions(profile.requests)
    common, begins = _common(sessions), [session[0].arrival_ns for session in sessions]
    span_ns = max(begins[-1] - begins[0] - segment_ns, 0)
    made: list[Request] = []
    # from a segment before the start, whose sessions reach into the first
    for copy, at_ns in enumerate(range(-segment_ns, length_ns, segment_ns)):
        start_ns = begins[0] + round(random.random() * span_ns)
        rows = range(bisect_left(begins, start_ns), bisect_left(begins, start_ns + segment_ns))
        for row in rows:
            made += [_moved(each, at_ns - start_ns, copy, common) for each in sessions[row]]
    inside = [request for request in made if 0 <= request.arrival_ns < length_ns]
    requests = tuple(sorted(inside, key=lambda request: request.arrival_ns))
    return Profile(
        name=profile.name,
        requests=requests,
        block_tokens=profile.block_tokens,
        sha256=fingerprint(requests),
        source=profile.source,
        licence=profile.licence,
        made_by=f"resampled with seed {seed} from {profile.sha256}",
    )


def _sessions(requests: Iterable[Request]) -> list[list[Request]]:
    """In order of their first request."""
    found: dict[str | int, list[Request]] = {}
    for row, request in enumerate(requests):
        found.setdefault(row if request.session_id is None else request.session_id, []).append(
            request
        )
    return list(found.values())


def _common(sessions: Iterable[Iterable[Request]]) -> frozenset[int]:
    """Ids that more than one session holds."""
    holders: Counter[int] = Counter()
    for session in sessions:
        holders.update({hash_id for request in session for hash_id in request.hash_ids})
    return frozenset(hash_id for hash_id, count in holders.items() if count > 1)


def _moved(request: Request, by_ns: int, copy: int, common: frozenset[int]) -> Request:
    own = _APART * (copy + 1)
    return replace(
        request,
        arrival_ns=request.arrival_ns + by_ns,
        hash_ids=tuple(each if each in common else each + own for each in request.hash_ids),
        session_id=None if request.session_id is None else f"{request.session_id}/{copy}",
        # the turn that it would wait for may be in no copy
        pause_ns=None,
    )
