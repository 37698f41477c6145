"""A job's replays as files for other programs."""

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from advisor.measure.definitions import samples
from advisor.report.export import ExportFormat, write_parquet, write_text
from advisor.report.requests import EVENT_COLUMNS, Exported, columns
from advisor.report.vllm_bench import vllm_bench
from advisor.terms.errors import InputError
from advisor.terms.job import EngineInfo, Job
from advisor.terms.target import Metric
from advisor.terms.traces import MISSING, RequestStatus
from tests.unit.measure.make import Req, traces
from tests.unit.tune.jobs import SPEC

ENGINE = EngineInfo("sim", "1", "paper", "m", simulated=True)
JOB = Job("1f0c9a2b", SPEC, SPEC.targets, ENGINE, "2026-01-01T00:00:00Z", "done")
#: sent 2 ms late; two tokens in the second event; a one-token answer; one reset half-way; one
#: that was never sent; a lead-in
REPLAY = Exported(
    trial=3,
    phase="search",
    replay=1,
    window="search-2",
    multiple=1.5,
    outcome="valid",
    traces=traces(
        [
            Req(0, [50, 60], counted=False, sent=0),
            Req(100, [150, 190, 200], tokens=[1, 2, 1], sent=102, prompt_tokens=12),
            Req(200, [260], sent=200),
            Req(300, [350, 360], status=RequestStatus.RESET, output=9, sent=300),
            Req(400, status=RequestStatus.CONNECT, output=5, sent=MISSING / 1e6),
        ],
        start=50,
        end=1050,
    ),
)


def text(format_: ExportFormat) -> str:
    out = io.StringIO()
    write_text(out, format_, JOB, [REPLAY, REPLAY])
    return out.getvalue()


def test_a_row_says_what_happened_and_what_did_not() -> None:
    table = columns(REPLAY)
    assert table["status"] == ["ok", "ok", "ok", "reset", "connect"]
    assert table["counted"] == [False, True, True, True, True]
    assert table["ttft_ms"] == [50, 50, 60, None, None]  # from the planned time
    assert table["tpot_ms"] == [10, pytest.approx(50 / 3), None, None, None]
    assert table["e2e_ms"] == [60, 100, 60, None, None]
    assert table["sent_ms"] == [0, 102, 200, 300, None]
    assert table["prompt_tokens"] == [None, 12, None, None, None]
    assert table["received_tokens"] == [2, 4, 1, 2, 0]
    assert table["output_tokens"] == [2, 4, 1, 9, 5]
    assert table["event_ms"][3] == [350, 360]  # what a failed request did receive
    assert table["event_tokens"] == [[1, 1], [1, 2, 1], [1], [1, 1], []]


def test_a_request_given_up_keeps_the_ttft_that_the_verdict_uses() -> None:
    """One with tokens, one that still waited, one that was never sent."""
    stopped = RequestStatus.STOPPED
    cut = traces(
        [
            Req(100, [150, 160], status=stopped, output=9, sent=102),
            Req(200, status=stopped, output=9, sent=200),
            Req(300, status=stopped, output=9, sent=MISSING / 1e6),
        ]
    )
    table = columns(replace(REPLAY, traces=cut))
    assert table["ttft_ms"] == [50, None, None]
    assert table["ttft_ms"][0] * 1e6 == samples(Metric.TTFT, cut).values[0]
    assert table["tpot_ms"] == table["e2e_ms"] == [None, None, None]


def test_csv_has_one_head_and_leaves_missing_values_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(text(ExportFormat.CSV))))
    assert len(rows) == 10
    assert not set(EVENT_COLUMNS) & rows[0].keys()
    assert (rows[4]["ttft_ms"], rows[4]["sent_ms"], rows[4]["window"]) == ("", "", "search-2")
    assert float(rows[1]["ttft_ms"]) == 50


def test_jsonl_has_the_events_of_every_request() -> None:
    rows = [json.loads(line) for line in text(ExportFormat.JSONL).splitlines()]
    assert len(rows) == 10
    assert rows[1]["event_ms"] == [150, 190, 200]
    assert rows[4]["ttft_ms"] is None


def test_parquet_holds_the_same_table(tmp_path: Path) -> None:
    path = tmp_path / "requests.parquet"
    write_parquet(path, [REPLAY, REPLAY])
    assert pq.ParquetFile(path).num_row_groups == 2
    read = pq.read_table(path).to_pydict()
    assert read == {name: column * 2 for name, column in columns(REPLAY).items()}


def test_without_pyarrow_parquet_names_what_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow.*csv, jsonl or vllm-bench"):
        write_parquet(tmp_path / "x.parquet", [REPLAY])
    with pytest.raises(InputError, match="--out"):
        write_text(io.StringIO(), ExportFormat.PARQUET, JOB, [REPLAY])


def test_vllm_bench_has_that_tools_names_and_meanings() -> None:
    found = vllm_bench(REPLAY, "m", "2026")
    same: dict[str, Any] = {
        "num_prompts": 4,  # the lead-in is not counted
        "completed": 2,
        "failed": 2,
        "duration": pytest.approx(0.258),  # from 102 ms, the first send, to the reset at 360
        "request_rate": 4,  # over the window
        "total_input_tokens": 12 + 10,
        "total_output_tokens": 4 + 1,
        "request_throughput": pytest.approx(2 / 0.258),
        "output_throughput": pytest.approx(5 / 0.258),
        "total_token_throughput": pytest.approx(27 / 0.258),
        "input_lens": [12, 10, 10, 10],
        "output_lens": [4, 1, 2, 0],
        "errors": ["", "", "reset", "connect"],
    }
    assert {key: found[key] for key in same} == same
    assert found["ttfts"] == pytest.approx([0.048, 0.06, 0.05, None])  # from the real send time
    assert found["itls"] == [pytest.approx([0.04, 0.01]), [], pytest.approx([0.01]), []]
    assert found["mean_ttft_ms"] == pytest.approx(54)
    assert found["mean_tpot_ms"] == pytest.approx(50 / 3)  # of the one that has two tokens
    assert found["p99_itl_ms"] == pytest.approx(39.7)


def test_an_overloaded_server_does_not_seem_to_carry_the_offered_load() -> None:
    slow = traces([Req(i * 100, [4_000 + i * 400], sent=i * 100) for i in range(10)])
    found = vllm_bench(Exported(0, "search", 0, "w", 1.0, "valid", slow), "m", "2026")
    assert found["request_rate"] == 10
    assert found["duration"] == pytest.approx(7.6)  # what completed in the drain counts its time
    assert found["request_throughput"] == pytest.approx(10 / 7.6)


def test_without_a_completed_request_there_are_no_statistics() -> None:
    nothing = traces([Req(10, status=RequestStatus.TIMEOUT, output=4, sent=10)])
    found = vllm_bench(Exported(0, "search", 0, "w", 1.0, "valid", nothing), "m", "2026")
    assert found["mean_ttft_ms"] is None
    assert found["request_throughput"] is None  # it was over as it was sent
    assert found["p99_itl_ms"] is None
    json.dumps(found, allow_nan=False)


def test_where_nothing_was_sent_there_is_no_duration() -> None:
    never = traces([Req(10, status=RequestStatus.CONNECT, output=4, sent=MISSING / 1e6)])
    found = vllm_bench(Exported(0, "search", 0, "w", 1.0, "valid", never), "m", "2026")
    assert (found["duration"], found["output_throughput"]) == (None, None)
