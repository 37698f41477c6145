"""Public traces: the figures that are known of them, and malformed files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.profile.importers import detect_tick_ns, import_azure, import_mooncake
from advisor.profile.inspect import Quantiles, inspect
from advisor.profile.load import load_profile
from advisor.profile.write import write_profile
from advisor.terms.errors import ProfileError
from tests.unit.profile.builders import public_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:17:03.9799600,10,5\n"


def test_the_azure_conversation_trace_is_as_published(tmp_path: Path) -> None:
    imported = import_azure(public_trace("AzureLLMInferenceTrace_conv.csv"))
    facts = inspect(imported.profile)
    assert facts.requests == 19_366
    assert facts.rate_rps == pytest.approx(5.53, abs=0.005)
    assert facts.dispersion_1s == pytest.approx(1.39, abs=0.005)
    assert facts.input_tokens == Quantiles(p50=1020, p90=2735, p99=4142, max=14_050)
    assert facts.output_tokens == Quantiles(p50=129, p90=424, p99=601, max=1000)
    assert facts.infinite_cache_hit_share is None
    # 18:15:46.6805900 and 18:15:50.9951690
    assert [r.arrival_ns for r in imported.profile.requests[:2]] == [0, 4_314_579_000]
    assert imported.profile.licence == "CC-BY-4.0"
    written = write_profile(imported.profile, tmp_path / "azure.jsonl", imported.tables)
    assert written == imported.profile
    assert load_profile(tmp_path / "azure.jsonl") == written


def test_the_mooncake_conversation_trace_is_as_published(tmp_path: Path) -> None:
    imported = import_mooncake(public_trace("mooncake_conversation_trace.jsonl"), seed=1)
    facts = inspect(imported.profile)
    assert facts.requests == 12_031
    assert facts.rate_rps == pytest.approx(3.4, abs=0.005)
    assert facts.infinite_cache_hit_share == pytest.approx(0.374, abs=0.0005)
    assert facts.prompt_tokens_per_s == pytest.approx(40_900, rel=0.005)
    assert imported.tables == {"jitter": {"tick_ms": 3000.0, "seed": 1}}
    assert len({r.arrival_ns for r in imported.profile.requests}) == 12_031
    # as it stands the trace has 30 at once; spread it is nearly Poisson
    assert facts.dispersion_1s < 1.2
    assert (imported.profile.block_tokens, imported.profile.licence) == (512, "Apache-2.0")
    written = write_profile(imported.profile, tmp_path / "mooncake.jsonl", imported.tables)
    assert "tick_ms" in (tmp_path / "mooncake.toml").read_text()
    assert load_profile(tmp_path / "mooncake.jsonl") == written


def azure(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_bytes(text.encode())
    return path


def test_azure_files_may_come_from_windows(tmp_path: Path) -> None:
    text = "\ufeff" + HEADER + ROW + ROW.replace("9799600", "9799601") + "\n"
    imported = import_azure(azure(tmp_path, text.replace("\n", "\r\n")))
    assert [r.arrival_ns for r in imported.profile.requests] == [0, 100]
    assert imported.profile.name == "trace"


def test_azure_times_of_2024_name_their_zone(tmp_path: Path) -> None:
    rows = [f"2024-05-10 00:00:00{more}+00:00,10,5\n" for more in ("", ".009930")]
    profile = import_azure(azure(tmp_path, HEADER + "".join(rows))).profile
    assert [r.arrival_ns for r in profile.requests] == [0, 9_930_000]


def test_azure_rows_without_tokens_are_dropped_and_counted(tmp_path: Path) -> None:
    text = HEADER + ROW.replace(",10,", ",0,") + ROW + ROW.replace(",5", ",0") * 2
    profile = import_azure(azure(tmp_path, text)).profile
    assert len(profile.requests) == 1
    assert profile.dropped == (("input_length is 0", 1), ("output_length is 0", 2))


@given(st.datetimes(), st.integers(0, 10**7 - 1))
def test_azure_times_are_exact(
    tmp_path_factory: pytest.TempPathFactory, moment: object, tenth_us: int
) -> None:
    first = f"{str(moment)[:19]},1,1\n"
    second = f"{str(moment)[:19]}.{tenth_us:07d},1,1\n"
    path = azure(tmp_path_factory.mktemp("azure"), HEADER + first + second)
    arrivals = [r.arrival_ns for r in import_azure(path).profile.requests]
    assert arrivals == [0, tenth_us * 100]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty"]),
        (HEADER, ["no rows"]),
        ("TIMESTAMP,Tokens\n" + ROW, ["row 1", "TIMESTAMP,Tokens", "ContextTokens"]),
        (HEADER + ROW + "2023-11-16 18:17:04,10\n", ["row 3", "2 columns"]),
        (HEADER + ROW.replace("2023-11-16 ", ""), ["row 2", "TIMESTAMP is '18:17:03.9799600'"]),
        (HEADER + ROW.replace("11-16", "02-30"), ["row 2", "TIMESTAMP is '2023-02-30"]),
        (HEADER + ROW.replace(",10,", ",-1,"), ["row 2", "ContextTokens is '-1'"]),
        (HEADER + ROW.replace(",10,", ",nan,"), ["row 2", "ContextTokens is 'nan'"]),
        (HEADER + ROW.replace(",5", ",5.5"), ["row 2", "GeneratedTokens is '5.5'"]),
        (HEADER + ROW.replace(",5", "," + "9" * 5000), ["row 2", "GeneratedTokens is '999"]),
        (HEADER + ROW + ROW.replace("03.9", "03.8"), ["row 3", "TIMESTAMP is earlier"]),
    ],
)
def test_a_malformed_azure_file_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    path = azure(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        import_azure(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def mooncake(folder: Path, times_ms: list[int]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text(
        "".join(
            f'{{"timestamp":{ms},"input_length":{n + 1},"output_length":1,"hash_ids":[0]}}\n'
            for n, ms in enumerate(times_ms)
        )
    )
    return path


def test_ticks_are_spread_in_order_under_a_seed(tmp_path: Path) -> None:
    path = mooncake(tmp_path, [100] * 50 + [3100] * 50 + [6100] * 50)
    imported = import_mooncake(path, seed=3)
    requests = imported.profile.requests
    assert [r.input_length for r in requests] == list(range(1, 151))
    arrivals = [r.arrival_ns for r in requests]
    for tick in range(3):
        inside = arrivals[tick * 50 : (tick + 1) * 50]
        assert tick * 3 * 10**9 <= inside[0] < inside[-1] < (tick + 1) * 3 * 10**9
    assert arrivals == sorted(arrivals)
    assert import_mooncake(path, seed=3) == imported
    assert import_mooncake(path, seed=4).profile.requests != requests


def test_a_fine_clock_is_left_alone(tmp_path: Path) -> None:
    imported = import_mooncake(mooncake(tmp_path, [5, 8, 8, 30]), seed=3)
    assert [r.arrival_ns for r in imported.profile.requests] == [
        0,
        3_000_000,
        3_000_000,
        25_000_000,
    ]
    assert imported.tables == {}
    assert detect_tick_ns([7] * 9) is None


def test_a_malformed_mooncake_file_is_named(tmp_path: Path) -> None:
    path = mooncake(tmp_path, [1, 2])
    path.write_text(path.read_text().replace('"input_length":2', '"input_length":513'))
    with pytest.raises(ProfileError, match=r"row 2: hash_ids has 1 ids; expected 2"):
        import_mooncake(path)
