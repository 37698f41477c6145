"""Loads made from other loads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.profile.inspect import inspect
from advisor.profile.load import load_profile
from advisor.profile.rescale import cut, rescale
from advisor.profile.write import write_profile
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request
from tests.unit.profile.builders import S, evenly, profile_of, profiles


def test_longer_prompts_grow_behind_what_they_share() -> None:
    profile = profile_of(
        [Request(0, 40, 4, (0, 1, 2)), Request(1, 40, 4, (0, 1, 3)), Request(2, 40, 4, (0, 1, 2))]
    )
    longer = rescale(profile, input=2.0, output=0.1)
    assert [r.hash_ids for r in longer.requests] == [
        (0, 1, 2, 4, 5),
        (0, 1, 3, 6, 7),
        (0, 1, 2, 4, 5),
    ]
    assert {(r.input_length, r.output_length) for r in longer.requests} == {(80, 1)}
    shorter = rescale(profile, input=0.5)
    assert {r.hash_ids for r in shorter.requests} == {(0, 1)}
    assert longer.made_by == "a test; rescaled by input 2, output 0.1"
    assert longer.sha256 != profile.sha256


@settings(max_examples=40)  # each writes files
@given(profiles(), st.floats(0.01, 20), st.floats(0.01, 20))
def test_a_rescaled_profile_is_a_profile(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile, input_: float, output: float
) -> None:
    other = rescale(profile, input=input_, output=output)
    path = tmp_path_factory.mktemp("rescaled") / "load.jsonl"
    write_profile(other, path)
    # loading checks that every block list fits its length
    assert load_profile(path) == other
    assert inspect(other).requests == len(profile.requests)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_a_factor_that_makes_no_sense_is_refused(factor: float) -> None:
    with pytest.raises(ProfileError, match=r"input factor is .*expected"):
        rescale(evenly(3, S), input=factor)
    with pytest.raises(ProfileError, match=r"output factor is .*expected"):
        rescale(evenly(3, S), output=factor)


def test_a_cut_starts_at_zero() -> None:
    profile = profile_of([Request(5 * S + i * S, i + 1, 1) for i in range(10)])
    part = cut(profile, 2.5, 5)
    assert [(r.arrival_ns, r.input_length) for r in part.requests] == [
        (S // 2, 4),
        (3 * S // 2, 5),
    ]
    assert part.made_by == "a test; cut to 2.5 s up to 5 s"
    assert len(cut(profile, 9, float("inf")).requests) == 1
    assert len(cut(profile, 0, 1e300).requests) == 10


@pytest.mark.parametrize(
    ("start_s", "end_s", "words"),
    [
        (-1.0, 5.0, "0 <= start < end"),
        (5.0, 5.0, "0 <= start < end"),
        (float("nan"), 5.0, "0 <= start < end"),
        (0.0, float("nan"), "0 <= start < end"),
        (1e300, float("inf"), "no request arrives then"),
        (0.1, 0.9, "no request arrives then"),
    ],
)
def test_a_cut_that_holds_nothing_is_refused(start_s: float, end_s: float, words: str) -> None:
    with pytest.raises(ProfileError, match=words):
        cut(evenly(10, S), start_s, end_s)
