"""Other recordings that the same traffic could have given: segments of one, drawn at random."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from advisor.profile.rows import fingerprint
from advisor.terms.profile import Profile, Request

#: Ids of one segment's copy lie this far from those of any other.
_APART = 1 << 40


def resampled(profile: Profile, length_ns: int, segment_ns: int, seed: int) -> Profile:
    """As long as asked, of segments drawn with replacement (a block bootstrap of the arrivals).

    Segments should be longer than a burst, and short enough that there are many. What requests of
    different sessions share, such as a system prompt, they go on sharing; what one session alone
    holds becomes new with each copy, so that no answer is found in the cache of its own copy.
    """
    random, requests = Random(seed), profile.requests
    arrivals = [request.arrival_ns for request in requests]
    common = _common(requests)
    span_ns = max(arrivals[-1] - arrivals[0] - segment_ns, 0)
    made: list[Request] = []
    for copy, at_ns in enumerate(range(0, length_ns, segment_ns)):
        start_ns = arrivals[0] + round(random.random() * span_ns)
        end_ns = start_ns + min(segment_ns, length_ns - at_ns)
        rows = range(bisect_left(arrivals, start_ns), bisect_left(arrivals, end_ns))
        made += [_moved(requests[row], at_ns - start_ns, copy, common) for row in rows]
    return Profile(
        name=profile.name,
        requests=tuple(made),
        block_tokens=profile.block_tokens,
        sha256=fingerprint(made),
        source=profile.source,
        licence=profile.licence,
        made_by=f"resampled with seed {seed} from {profile.sha256}",
    )


def _common(requests: Iterable[Request]) -> frozenset[int]:
    """Ids that more than one session holds; a request without a session is one of its own."""
    holders: Counter[int] = Counter()
    seen: set[tuple[str, int]] = set()
    for request in requests:
        for hash_id in request.hash_ids:
            if request.session_id is not None:
                if (request.session_id, hash_id) in seen:
                    continue
                seen.add((request.session_id, hash_id))
            holders[hash_id] += 1
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
