"""The shipped profiles: what each promises, and that the generator makes these very bytes."""

from pathlib import Path

import pytest

from advisor.profile.inspect import ProfileFacts, inspect
from advisor.profile.load import load_profile
from advisor.profile.shipped import resolve, shipped_profiles
from advisor.profile.synth import RECIPES, main, synthesise
from advisor.profile.window import slice_of, split
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request
from tests.unit.profile.builders import ROOT, S


@pytest.fixture(name="shipped", scope="module")
def _shipped() -> dict[str, tuple[Profile, ProfileFacts]]:
    profiles = {name: load_profile(path) for name, path in shipped_profiles().items()}
    return {name: (profile, inspect(profile)) for name, profile in profiles.items()}


def test_the_generator_makes_the_shipped_bytes(tmp_path: Path) -> None:
    main(["--out", str(tmp_path)])
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = {
        path.name: path.read_bytes()
        for pattern in ("*.jsonl", "*.toml")
        for path in (ROOT / "profiles").glob(pattern)
    }
    assert made == there


def pools(profile: Profile, gap_s: int) -> list[int]:
    """Requests in each pool of three windows: the search's and either confirmation round's."""
    windows = split(profile, windows=3, rounds=2, gap_ns=gap_s * S)
    pools = (windows.search, windows.held_out[:3], windows.held_out[3:])
    return [
        sum(len(slice_of(profile, window, windows.gap_ns).window) for window in pool)
        for pool in pools
    ]


def test_chat_shared_prefix(shipped: dict[str, tuple[Profile, ProfileFacts]]) -> None:
    profile, facts = shipped["chat-shared-prefix"]
    assert facts.rate_rps == pytest.approx(8, rel=0.05)
    assert facts.duration_s == pytest.approx(900, rel=0.01)
    assert facts.dispersion_1s == pytest.approx(1, abs=0.1)
    system = tuple(range(2048 // 256))
    assert all(r.hash_ids[: len(system)] == system for r in profile.requests)
    assert facts.sessions is not None
    assert facts.requests / facts.sessions == pytest.approx(2, rel=0.05)
    # enough to decide a p99 of a per-request metric in each pool
    assert min(pools(profile, gap_s=20)) >= 1500


def test_a_follow_up_holds_what_was_said_before(
    shipped: dict[str, tuple[Profile, ProfileFacts]],
) -> None:
    profile, _ = shipped["chat-shared-prefix"]
    last: dict[str | None, Request] = {}
    follow_ups = 0
    for request in profile.requests:
        before = last.get(request.session_id)
        if before is not None:
            whole = before.input_length // 256
            assert request.input_length > before.input_length + before.output_length
            assert request.hash_ids[:whole] == before.hash_ids[:whole]
            follow_ups += 1
        last[request.session_id] = request
    assert follow_ups > 3000


def test_chat_and_documents(shipped: dict[str, tuple[Profile, ProfileFacts]]) -> None:
    profile, facts = shipped["chat-and-documents"]
    assert facts.rate_rps == pytest.approx(4, rel=0.1)
    assert facts.duration_s == pytest.approx(1400, rel=0.01)
    assert 2.5 <= facts.dispersion_1s <= 4
    assert facts.prompt_tokens_per_s == pytest.approx(9_200, rel=0.1)
    documents = [r for r in profile.requests if r.hash_ids[0] != 0]
    assert len(documents) / facts.requests == pytest.approx(0.25, abs=0.03)
    assert all(4000 <= r.input_length <= 6_000 for r in documents)
    assert all(150 <= r.output_length <= 300 for r in documents)
    assert min(pools(profile, gap_s=20)) >= 900


def test_tiny_cpu(shipped: dict[str, tuple[Profile, ProfileFacts]]) -> None:
    profile, facts = shipped["tiny-cpu"]
    assert facts.rate_rps == pytest.approx(2.5, rel=0.1)
    assert facts.duration_s == pytest.approx(600, rel=0.01)
    assert facts.dispersion_1s == pytest.approx(1, abs=0.2)
    assert all(r.input_length + r.output_length <= 2000 for r in profile.requests)
    assert all(32 <= r.output_length <= 64 for r in profile.requests)
    chats = [r for r in profile.requests if r.hash_ids[:4] == (0, 1, 2, 3)]
    documents = [r for r in profile.requests if r.hash_ids[0] != 0]
    assert len(chats) + len(documents) == facts.requests
    assert len(documents) / facts.requests == pytest.approx(1 / 2, abs=0.04)
    assert all(542 <= r.input_length <= 642 for r in chats)
    assert all(800 <= r.input_length <= 1800 for r in documents)
    assert max(r.input_length for r in documents) > 1700
    assert min(pools(profile, gap_s=8)) >= 300


def test_another_seed_is_another_load() -> None:
    one, two = synthesise("tiny-cpu"), synthesise("tiny-cpu", seed=2)
    assert one.sha256 != two.sha256
    assert "--seed 2" in two.made_by


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(ProfileError, match=r"'chat'.*chat-shared-prefix, .*tiny-cpu"):
        synthesise("chat")


def test_a_profile_is_found_by_path_or_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("x")
    assert resolve(str(path)) == path
    assert set(shipped_profiles()) == set(RECIPES)
    for name in RECIPES:
        assert load_profile(resolve(name)).name == name


@pytest.mark.parametrize("wrong", ["", "absent.jsonl", "../profiles/tiny-cpu", "."])
def test_a_name_of_nothing_is_told_what_there_is(wrong: str) -> None:
    with pytest.raises(
        ProfileError, match=r"(no such file|a folder); .*chat-and-documents.*tiny-cpu"
    ):
        resolve(wrong)
