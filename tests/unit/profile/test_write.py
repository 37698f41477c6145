"""Writing a profile: read back the same, and never half there."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.profile.load import load_profile
from advisor.profile.sidecar import Sidecar, Table, read_sidecar, to_toml
from advisor.profile.write import write_profile
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request
from tests.unit.profile.builders import evenly, profile_of, profiles

WORDS = st.text(st.characters(codec="utf-8"), min_size=1)


@settings(max_examples=40)  # each writes files
@given(profiles(), WORDS, WORDS, st.integers(1, 9))
def test_what_was_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile, name: str, word: str, rows: int
) -> None:
    path = tmp_path_factory.mktemp("written") / "load.jsonl"
    said = replace(profile, name=name, source=word, made_by=word, dropped=((word, rows),))
    assert write_profile(said, path) == said
    assert load_profile(path) == said


def test_times_and_ids_keep_every_digit(tmp_path: Path) -> None:
    request = Request(
        1_700_000_000_123_456_789, 1, 1, (2**64 - 1,), 'a "b"\n\x7f\ud800', 1_234_567
    )
    written = write_profile(profile_of([request]), tmp_path / "load.jsonl")
    assert load_profile(tmp_path / "load.jsonl") == written
    assert written.requests == (request,)


def test_further_tables_are_kept_beside(tmp_path: Path) -> None:
    tables: dict[str, Table] = {"jitter": {"tick_ms": 3000.5, "seed": 1, "on": True, "by": "x"}}
    write_profile(evenly(2, 5), tmp_path / "load.jsonl", tables)
    text = (tmp_path / "load.toml").read_text()
    assert '["jitter"]\n"tick_ms" = 3000.5\n"seed" = 1\n"on" = true\n"by" = "x"\n' in text
    assert load_profile(tmp_path / "load.jsonl").requests[1].arrival_ns == 5


def test_a_sidecar_of_a_file_without_a_text_name_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "load.toml").write_bytes(to_toml(Sidecar(name="a\udcff")))
    assert read_sidecar(tmp_path / "load.toml").name == "a?"


def test_the_sha256_is_of_the_bytes_written(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    path.write_text('{"output_length": 5, "timestamp": 0.0, "input_length": 20}')
    loaded = load_profile(path)
    written = write_profile(loaded, path)
    assert written.sha256 != loaded.sha256
    assert load_profile(path) == written


def test_a_failed_write_leaves_the_old_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "load.jsonl"
    old = write_profile(evenly(3, 5), path)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ProfileError, match="No space left"):
        write_profile(evenly(9, 5), path)
    assert load_profile(path) == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["load.jsonl", "load.toml"]


def test_a_crash_between_the_two_files_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "load.jsonl"
    write_profile(evenly(3, 5), path)
    replace_file = Path.replace

    def crash_on_rows(source: Path, target: Path) -> Path:
        if target == path:
            raise OSError(5, "Input/output error")
        return replace_file(source, target)

    monkeypatch.setattr(Path, "replace", crash_on_rows)
    with pytest.raises(ProfileError, match="Input/output error"):
        write_profile(evenly(9, 5), path)
    with pytest.raises(ProfileError, match="sha256"):
        load_profile(path)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="cannot be written"):
        write_profile(evenly(3, 5), tmp_path / "absent" / "load.jsonl")
    with pytest.raises(ProfileError, match=r"expected a name like load\.jsonl"):
        write_profile(evenly(3, 5), tmp_path / "load.toml")
