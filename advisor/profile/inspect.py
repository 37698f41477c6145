"""What a recorded load is like, in numbers."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.profile import Profile

_BIN_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of lengths in tokens; each is a length that occurs (nearest rank)."""

    p50: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """A profile in numbers."""

    name: str
    sha256: str
    requests: int
    duration_s: float
    #: requests per second over the duration; None when all arrive at one moment
    rate_rps: float | None
    #: variance / mean of the counts of arrivals in bins of 1 s; 1 for Poisson, more for bursts
    dispersion_1s: float
    input_tokens: Quantiles
    output_tokens: Quantiles
    #: distinct session ids; None when no request has one
    sessions: int | None
    #: None when all arrive at one moment
    prompt_tokens_per_s: float | None
    #: share of the prompt tokens that an infinite prefix cache would hold already; None when
    #: the profile does not tell which blocks are shared
    infinite_cache_hit_share: float | None
    #: (reason, rows) in the file that are no requests
    dropped: tuple[tuple[str, int], ...]


def inspect(profile: Profile) -> ProfileFacts:
    """Measure a profile."""
    requests = profile.requests
    duration_s = profile.duration_ns / 1e9
    prompt_tokens = sum(request.input_length for request in requests)
    sessions = {request.session_id for request in requests} - {None}
    return ProfileFacts(
        name=profile.name,
        sha256=profile.sha256,
        requests=len(requests),
        duration_s=duration_s,
        rate_rps=len(requests) / duration_s if duration_s else None,
        dispersion_1s=_dispersion([request.arrival_ns for request in requests]),
        input_tokens=_quantiles([request.input_length for request in requests]),
        output_tokens=_quantiles([request.output_length for request in requests]),
        sessions=len(sessions) or None,
        prompt_tokens_per_s=prompt_tokens / duration_s if duration_s else None,
        infinite_cache_hit_share=_hit_share(profile, prompt_tokens),
        dropped=profile.dropped,
    )


def _dispersion(arrivals_ns: Sequence[int]) -> float:
    """Index of dispersion of counts, population variance over mean, empty bins included."""
    counts = Counter((arrival - arrivals_ns[0]) // _BIN_NS for arrival in arrivals_ns)
    bins = (arrivals_ns[-1] - arrivals_ns[0]) // _BIN_NS + 1
    mean = len(arrivals_ns) / bins
    return sum(n * n for n in counts.values()) / bins / mean - mean


def _quantiles(lengths: Sequence[int]) -> Quantiles:
    ordered = sorted(lengths)

    def at(share: float) -> int:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Quantiles(p50=at(0.50), p90=at(0.90), p99=at(0.99), max=ordered[-1])


def _hit_share(profile: Profile, prompt_tokens: int) -> float | None:
    """A block hits when it and all before it were seen; the recorded blocks count whole."""
    if not any(request.hash_ids for request in profile.requests):
        return None
    node_of: dict[tuple[int, int], int] = {}
    hit_tokens = 0
    for request in profile.requests:
        prefix = 0
        for position, hash_id in enumerate(request.hash_ids):
            known = len(node_of)
            prefix = node_of.setdefault((prefix, hash_id), known + 1)
            if len(node_of) == known:
                left = request.input_length - position * profile.block_tokens
                hit_tokens += min(profile.block_tokens, left)
    return hit_tokens / prompt_tokens
