"""Every replay of a job, written for other programs."""

import csv
import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from advisor.report.parquet import arrow
from advisor.report.requests import Exported, columns, rows
from advisor.report.vllm_bench import vllm_bench
from advisor.terms.errors import InputError
from advisor.terms.job import Job


class ExportFormat(StrEnum):
    #: a row for each request, each event's time and tokens with it; needs pyarrow
    PARQUET = "parquet"
    #: a row for each request, without its events
    CSV = "csv"
    #: an object for each request, its events with it
    JSONL = "jsonl"
    #: an object for each replay, as `vllm bench serve` names things
    VLLM_BENCH = "vllm-bench"


def write_text(out: TextIO, format_: ExportFormat, job: Job, replays: Iterable[Exported]) -> None:
    """One of the text formats. Raises InputError for Parquet, which is none."""
    match format_:
        case ExportFormat.CSV:
            _write_csv(out, replays)
        case ExportFormat.JSONL:
            for exported in replays:
                for row in rows(exported, events=True):
                    _write_json(out, row)
        case ExportFormat.VLLM_BENCH:
            for exported in replays:
                _write_json(out, vllm_bench(exported, job.spec.model, job.created_at))
        case ExportFormat.PARQUET:
            raise InputError("format parquet is no text; name a file with --out")


def write_parquet(path: Path, replays: Iterable[Exported]) -> None:
    """A row group for each replay. Raises InputError without pyarrow, or without a replay."""
    pa, pq = arrow("format parquet", "--format csv, jsonl or vllm-bench")
    schema = pa.schema(_parquet_fields(pa))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for exported in replays:
            writer.write_table(pa.table(columns(exported), schema=schema))


def _parquet_fields(pa: Any) -> list[tuple[str, Any]]:
    text, integer, number = pa.string(), pa.int64(), pa.float64()
    return [
        ("trial", integer),
        ("phase", text),
        ("replay", integer),
        ("window", text),
        ("multiple", number),
        ("outcome", text),
        ("request", integer),
        ("counted", pa.bool_()),
        ("status", text),
        ("planned_ms", number),
        ("sent_ms", number),
        ("end_ms", number),
        ("input_tokens", integer),
        ("prompt_tokens", integer),
        ("output_tokens", integer),
        ("received_tokens", integer),
        ("ttft_ms", number),
        ("tpot_ms", number),
        ("e2e_ms", number),
        ("event_ms", pa.list_(number)),
        ("event_tokens", pa.list_(pa.int32())),
    ]


def _write_csv(out: TextIO, replays: Iterable[Exported]) -> None:
    writer: csv.DictWriter[str] | None = None
    for exported in replays:
        for row in rows(exported, events=False):
            if writer is None:
                writer = csv.DictWriter(out, fieldnames=list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)


def _write_json(out: TextIO, value: dict[str, Any]) -> None:
    out.write(json.dumps(value, allow_nan=False) + "\n")
