"""Reading a profile: what is accepted, and the one line each mistake is answered with."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.load import load_profile
from advisor.profile.rows import milliseconds
from advisor.terms.errors import ProfileError

GOOD = '{"timestamp":0,"input_length":20,"output_length":5}\n'


def write(folder: Path, rows: str, sidecar: str | None = None) -> Path:
    path = folder / "load.jsonl"
    path.write_text(rows)
    if sidecar is not None:
        (folder / "load.toml").write_text(sidecar)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def test_rows_and_sidecar_make_a_profile(tmp_path: Path) -> None:
    rows = (
        '{"timestamp":0.1234,"input_length":20,"output_length":5,"hash_ids":[7,8],'
        '"session_id":"a","pause":1500.25,"model":"ignored"}\n'
        '{"timestamp":1700000000000.000001,"input_length":16,"output_length":1,"hash_ids":[7]}'
    )
    digest = sha256(rows.encode()).hexdigest()
    path = write(
        tmp_path,
        rows,
        f'name="n"\nblock_tokens=16\nsource="s"\nlicence="l"\nsha256="{digest}"\n'
        'made_by="m"\n[jitter]\ntick_ms=3000.0\n',
    )
    profile = load_profile(path)
    first, second = profile.requests
    assert (profile.name, profile.block_tokens, profile.sha256) == ("n", 16, digest)
    assert (profile.source, profile.licence, profile.made_by) == ("s", "l", "m")
    assert (first.arrival_ns, first.input_length, first.output_length) == (123_400, 20, 5)
    assert (first.hash_ids, first.session_id, first.pause_ns) == ((7, 8), "a", 1_500_250_000)
    # every digit: a float holds no nanosecond of an epoch time
    assert second.arrival_ns == 1_700_000_000_000_000_001
    assert (second.session_id, second.pause_ns) == (None, None)


def test_without_sidecar_or_hash_ids_the_block_size_does_not_matter(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, GOOD))
    assert (profile.name, profile.source, profile.block_tokens) == ("load", "unknown", 16)


def test_blank_lines_a_byte_order_mark_and_crlf_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.strip().encode() + b"\r\n\r\n" + GOOD.encode())
    assert len(load_profile(path).requests) == 2


def test_rows_of_zero_length_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = GOOD + GOOD.replace("20", "0") * 2 + GOOD.replace(":5", ":0") + GOOD
    profile = load_profile(write(tmp_path, rows, '[dropped]\n"output_length is 0" = 3\n'))
    assert len(profile.requests) == 2
    assert profile.dropped == (("input_length is 0", 2), ("output_length is 0", 4))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("nonsense", ["not JSON", "nonsense"]),
        ('{"timestamp":1e999999999999999999999}', ["timestamp is inf", "milliseconds"]),
        ('{"timestamp":1e-999999999999999999999}', ["timestamp is 0.0", "milliseconds"]),
        ("[1, 2]", ["not a JSON object"]),
        ("[" * 100_000, ["not JSON"]),
        ('{"timestamp":' + "9" * 5000 + "}", ["not JSON"]),
        ('{"input_length":1,"output_length":1}', ["timestamp is missing", "milliseconds"]),
        ('{"timestamp":0,"output_length":1}', ["input_length is missing"]),
        ('{"timestamp":0,"input_length":1}', ["output_length is missing"]),
        ('{"timestamp":"0","input_length":1,"output_length":1}', ["timestamp is '0'"]),
        ('{"timestamp":true,"input_length":1,"output_length":1}', ["timestamp is True"]),
        ('{"timestamp":NaN,"input_length":1,"output_length":1}', ["timestamp is nan"]),
        ('{"timestamp":Infinity,"input_length":1,"output_length":1}', ["timestamp is inf"]),
        ('{"timestamp":-0.5,"input_length":1,"output_length":1}', ["timestamp is -0.5"]),
        ('{"timestamp":1e999999,"input_length":1,"output_length":1}', ["timestamp is 1E+999999"]),
        ('{"timestamp":0,"input_length":-5,"output_length":1}', ["input_length is -5", "0 to"]),
        ('{"timestamp":0,"input_length":1.0,"output_length":1}', ["input_length is 1.0"]),
        ('{"timestamp":0,"input_length":true,"output_length":1}', ["input_length is True"]),
        ('{"timestamp":0,"input_length":1,"output_length":null}', ["output_length is None"]),
        ('{"timestamp":0,"input_length":1,"output_length":10000001}', ["10000001", "10000000"]),
        (GOOD.strip()[:-1] + ',"hash_ids":3}', ["hash_ids is 3"]),
        (GOOD.strip()[:-1] + ',"hash_ids":[1,true]}', ["hash_ids is [1, True]"]),
        (GOOD.strip()[:-1] + ',"hash_ids":[1,-2]}', ["hash_ids is [1, -2]"]),
        (GOOD.strip()[:-1] + ',"hash_ids":[1]}', ["hash_ids has 1 ids", "expected 2"]),
        (GOOD.strip()[:-1] + ',"hash_ids":[]}', ["hash_ids has 0 ids", "expected 2"]),
        (GOOD.strip()[:-1] + ',"session_id":3}', ["session_id is 3", "a string"]),
        (GOOD.strip()[:-1] + ',"pause":5}', ["pause is 5", "a session_id beside it"]),
        (GOOD.strip()[:-1] + ',"session_id":"a","pause":-5}', ["pause is -5", "milliseconds"]),
    ],
)
def test_a_bad_row_is_named_with_field_and_value(
    tmp_path: Path, row: str, words: list[str]
) -> None:
    path = write(tmp_path, GOOD + row + "\n", "block_tokens = 16\n")
    text = refusal(path)
    for word in [str(path), "row 2", *words]:
        assert word in text


def test_times_must_be_in_order(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, GOOD.replace(":0", ":7.5") + GOOD.replace(":0", ":7.4")))
    assert "row 2: timestamp is 7.4" in text


def test_hash_ids_without_a_block_size_are_refused(tmp_path: Path) -> None:
    rows = GOOD.strip()[:-1] + ',"hash_ids":[1,2]}'
    assert "block_tokens = N" in refusal(write(tmp_path, rows))
    assert "block_tokens = N" in refusal(write(tmp_path, rows, 'name = "n"\n'))


def test_a_file_that_is_not_what_the_sidecar_describes_is_refused(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, GOOD, f'sha256 = "{"0" * 64}"\n'))
    assert "sha256" in text
    assert sha256(GOOD.encode()).hexdigest() in text


@pytest.mark.parametrize(
    ("sidecar", "words"),
    [
        ("name = ", "not TOML"),
        ("block_tokens = 0", "block_tokens is 0"),
        ("block_tokens = true", "block_tokens is True"),
        ("name = 3", "name is 3"),
        ("dropped = 3", "expected a table"),
        ('[dropped]\n"x" = -1', "dropped is {'x': -1}"),
    ],
)
def test_a_bad_sidecar_is_named(tmp_path: Path, sidecar: str, words: str) -> None:
    text = refusal(write(tmp_path, GOOD, sidecar))
    assert "load.toml" in text
    assert words in text


def test_files_that_hold_no_load_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent.jsonl")
    assert "cannot be read" in refusal(tmp_path)
    assert "is empty" in refusal(write(tmp_path, " \n\n"))
    text = refusal(write(tmp_path, GOOD.replace("20", "0") * 3))
    assert "no usable rows" in text
    assert "3 where input_length is 0" in text
    (tmp_path / "load.jsonl").write_bytes(b"\xff\xfe{}")
    assert "not UTF-8" in refusal(tmp_path / "load.jsonl")


@given(st.text(max_size=60))
def test_no_text_does_more_than_raise_a_profile_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "load.jsonl"
    path.write_text(GOOD + text, encoding="utf-8", errors="replace")
    errors = []
    try:
        assert load_profile(path).requests[0].input_length == 20
    except ProfileError as error:
        errors.append(str(error))
    assert "\n" not in "".join(errors)


@given(st.integers(0, 9 * 10**18))
def test_milliseconds_keep_every_nanosecond(ns: int) -> None:
    text = milliseconds(ns)
    whole, _, rest = text.partition(".")
    assert int(whole) * 10**6 + int(rest.ljust(6, "0")) == ns
    assert not text.endswith(".")
