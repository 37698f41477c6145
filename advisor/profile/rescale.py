"""Another load made from a recorded one: longer or shorter prompts and answers, or a part."""

import math
from collections.abc import Sequence
from dataclasses import replace

from advisor.profile.rows import MAX_TOKENS, fingerprint
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request


def rescale(
    profile: Profile,
    *,
    input: float = 1.0,
    output: float = 1.0,
) -> Profile:
    """Multiply prompt and output lengths, rounded, at least 1 token; arrivals stay.

    Blocks keep their size. A shorter prompt keeps its first hash ids; a longer one gets new
    ids after its own, the same for prompts that were the same, new to all others. So prompts
    share as many tokens as before at most: it is the part of their own that grows.
    Raises ProfileError for a factor that is not above 0, or lengths too long to be meant.
    """
    for field, factor in (("input", input), ("output", output)):
        if not (math.isfinite(factor) and factor > 0):
            raise ProfileError(f"{field} factor is {factor}; expected a number above 0")
    blocks = _Blocks(profile)
    requests = tuple(
        replace(
            request,
            input_length=(tokens := _scaled(request.input_length, input, "input")),
            output_length=_scaled(request.output_length, output, "output"),
            hash_ids=blocks.fit(request.hash_ids, tokens),
        )
        for request in profile.requests
    )
    return derived(profile, requests, f"rescaled by input {input:g}, output {output:g}")


def _scaled(tokens: int, factor: float, field: str) -> int:
    scaled = tokens * factor
    if scaled > MAX_TOKENS:
        raise ProfileError(
            f"{field} factor is {factor}; it makes {tokens} tokens {scaled:g}, "
            f"expected at most {MAX_TOKENS}"
        )
    return max(1, round(scaled))


class _Blocks:
    def __init__(self, profile: Profile) -> None:
        self._block_tokens = profile.block_tokens
        self._next = 1 + max((max(r.hash_ids, default=-1) for r in profile.requests), default=-1)
        #: the ids a prompt ended in, as far as known -> the one that follows
        self._after: dict[tuple[int, ...], list[int]] = {}

    def fit(self, hash_ids: tuple[int, ...], tokens: int) -> tuple[int, ...]:
        if not hash_ids:
            return ()
        blocks = -(-tokens // self._block_tokens)
        fresh = self._after.setdefault(hash_ids, [])
        while len(hash_ids) + len(fresh) < blocks:
            fresh.append(self._next)
            self._next += 1
        return (*hash_ids, *fresh)[:blocks]


def cut(profile: Profile, start_s: float, end_s: float) -> Profile:
    """The requests from start up to end, seconds after the first; start becomes time 0.

    Raises ProfileError for a span that is none or holds no request.
    """
    if not (0 <= start_s < end_s):
        raise ProfileError(f"start {start_s} s, end {end_s} s; expected 0 <= start < end")
    first_ns = profile.requests[0].arrival_ns
    beyond_s = profile.duration_ns / 1e9 + 1
    low_ns, high_ns = (first_ns + round(min(at, beyond_s) * 1e9) for at in (start_s, end_s))
    requests = tuple(
        replace(request, arrival_ns=request.arrival_ns - low_ns)
        for request in profile.requests
        if low_ns <= request.arrival_ns < high_ns
    )
    if not requests:
        raise ProfileError(
            f"start {start_s} s, end {end_s} s: no request arrives then; expected a part of "
            f"the profile's {profile.duration_ns / 1e9:.1f} s"
        )
    return derived(profile, requests, f"cut to {start_s:g} s up to {end_s:g} s")


def derived(profile: Profile, requests: Sequence[Request], how: str) -> Profile:
    """The profile with other requests; `made_by` says how they came about."""
    return replace(
        profile,
        requests=tuple(requests),
        sha256=fingerprint(requests),
        made_by=f"{profile.made_by}; {how}",
    )
