"""Profiles for tests, and where the public traces are."""

import os
from pathlib import Path

import pytest
from hypothesis import strategies as st

from advisor.profile.rows import fingerprint
from advisor.terms.profile import Profile, Request

ROOT = Path(__file__).parents[3]
DATA = ROOT / "../shared/data"
S = 10**9


def public_trace(name: str) -> Path:
    """A public trace; skips where there is none, but not in CI."""
    path = DATA / name
    if not path.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} is missing")
        pytest.skip(f"public trace {name} is not on this machine")
    return path


def profile_of(requests: list[Request], block_tokens: int = 16, name: str = "made") -> Profile:
    return Profile(
        name=name,
        requests=tuple(requests),
        block_tokens=block_tokens,
        sha256=fingerprint(requests),
        source="test",
        licence="Apache-2.0",
        made_by="a test",
    )


def evenly(count: int, step_ns: int) -> Profile:
    """One request each `step_ns`, 40 tokens in, 5 out, nothing shared."""
    return profile_of([Request(i * step_ns, 40, 5) for i in range(count)])


@st.composite
def profiles(draw: st.DrawFn, max_requests: int = 40) -> Profile:
    """Small loads with sessions, shared blocks, ties and rows that share nothing."""
    block_tokens = draw(st.sampled_from([1, 4, 16]))
    count = draw(st.integers(1, max_requests))
    steps = draw(st.lists(st.integers(0, 3 * S), min_size=count, max_size=count))
    requests, now = [], draw(st.integers(0, 5 * S))
    for step in steps:
        now += step
        tokens = draw(st.integers(1, 5 * block_tokens))
        blocks = -(-tokens // block_tokens)
        ids = draw(
            st.one_of(st.just([]), st.lists(st.integers(0, 2), min_size=blocks, max_size=blocks))
        )
        session = draw(st.sampled_from([None, "a", "b", "c", "d"]))
        pause = None if session is None else draw(st.none() | st.integers(0, 2 * S))
        output = draw(st.integers(1, 99))
        requests.append(Request(now, tokens, output, tuple(ids), session, pause))
    return profile_of(requests, block_tokens)
