"""Small recorded loads, so that a whole job takes about a second."""

from pathlib import Path
from random import Random

from advisor.profile.rows import fingerprint
from advisor.profile.write import write_profile
from advisor.terms.profile import Profile, Request

BLOCK = 64
_SYSTEM = tuple(range(16))


def small(rate_rps: float = 6.0, duration_s: float = 180.0, seed: int = 1) -> Profile:
    """Short answers to prompts of 1,536 tokens, two thirds of them one system prompt."""
    random, requests, now_s = Random(seed), list[Request](), 0.0
    while now_s < duration_s:
        fresh = len(_SYSTEM) + 8 * len(requests)
        ids = (*_SYSTEM, *range(fresh, fresh + 8))
        arrival_ns = round(now_s * 1e4) * 100_000
        requests.append(Request(arrival_ns, BLOCK * len(ids), random.randint(8, 24), ids))
        now_s += random.expovariate(rate_rps)
    return Profile(
        name="small",
        requests=tuple(requests),
        block_tokens=BLOCK,
        sha256=fingerprint(requests),
        source="synthetic",
        licence="Apache-2.0",
        made_by="tests",
    )


def write_small(path: Path, **how: float) -> Path:
    """`small`, as a file with its sidecar."""
    write_profile(small(**how), path)  # type: ignore[arg-type]
    return path
