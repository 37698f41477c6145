"""Public traces -> profiles of ours."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

from advisor.profile.load import DEFAULT_BLOCK_TOKENS, decode, read_bytes
from advisor.profile.rows import MAX_TOKENS, fingerprint, milliseconds, parse_rows, without_empty
from advisor.profile.sidecar import Table
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request


@dataclass(frozen=True, slots=True)
class Imported:
    """A profile, and the further tables its sidecar should have."""

    profile: Profile
    tables: Mapping[str, Table] = field(default_factory=dict)


_AZURE_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
_AZURE_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:\+00:00)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def import_azure(path: Path) -> Imported:
    """Read a CSV of Azure's LLM inference traces of 2023 or 2024.

    The columns are `TIMESTAMP,ContextTokens,GeneratedTokens`; all seven decimals of a second
    are kept; those of 2024 end in `+00:00`. Time starts at the first row. Rows of zero tokens
    are dropped and counted. Raises ProfileError naming row (the line's number, from 1) and column.
    """
    lines = decode(path, read_bytes(path)).split("\n")
    header = lines[0].strip().split(",")
    if header != _AZURE_COLUMNS:
        raise ProfileError(
            f"trace {path}, row 1: columns are {','.join(header)[:80]!r}; "
            f"expected {','.join(_AZURE_COLUMNS)}"
        )
    rows = [
        _azure_row(f"trace {path}, row {number}", line.strip())
        for number, line in enumerate(lines[1:], start=2)
        if line.strip()
    ]
    _check_order(path, rows)
    start_ns = rows[0].arrival_ns if rows else 0
    usable = without_empty(
        path, (replace(row, arrival_ns=row.arrival_ns - start_ns) for row in rows)
    )
    return Imported(
        Profile(
            name=path.stem,
            requests=usable.requests,
            block_tokens=DEFAULT_BLOCK_TOKENS,
            sha256=fingerprint(usable.requests),
            source=f"{path.name}, Azure/AzurePublicDataset",
            licence="CC-BY-4.0",
            made_by=f"advisor profile import azure {path.name}",
            dropped=usable.dropped,
        )
    )


def _azure_row(where: str, line: str) -> Request:
    cells = line.split(",")
    if len(cells) != len(_AZURE_COLUMNS):
        raise ProfileError(
            f"{where}: {line[:80]!r} has {len(cells)} columns; expected {','.join(_AZURE_COLUMNS)}"
        )
    return Request(
        arrival_ns=_azure_time_ns(where, cells[0]),
        input_length=_tokens(where, _AZURE_COLUMNS[1], cells[1]),
        output_length=_tokens(where, _AZURE_COLUMNS[2], cells[2]),
    )


def _azure_time_ns(where: str, cell: str) -> int:
    match = _AZURE_TIME.fullmatch(cell)
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC) if match else None
    except ValueError:  # a 30th of February
        moment = None
    if match is None or moment is None:
        raise ProfileError(
            f"{where}: TIMESTAMP is {cell[:80]!r}; expected 2023-11-16 18:17:03.9799600"
        )
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 10**9 + int((match[2] or "").ljust(9, "0"))


def _tokens(where: str, column: str, cell: str) -> int:
    if cell.isascii() and cell.isdigit() and len(cell) < 20 and int(cell) <= MAX_TOKENS:
        return int(cell)
    raise ProfileError(
        f"{where}: {column} is {cell[:80]!r}; expected tokens, an integer from 0 to {MAX_TOKENS}"
    )


def _check_order(path: Path, rows: Sequence[Request]) -> None:
    for number, (before, after) in enumerate(pairwise(rows), start=3):
        if after.arrival_ns < before.arrival_ns:
            raise ProfileError(
                f"trace {path}, row {number}: TIMESTAMP is earlier than that of the row above; "
                "expected rows in time order"
            )


#: README of kvcache-ai/Mooncake: a hash id stands for 512 tokens.
MOONCAKE_BLOCK_TOKENS = 512
#: With fewer requests per distinct timestamp than this, times are taken as they are.
_TICKED = 2


def import_mooncake(path: Path, seed: int = 0) -> Imported:
    """Read a Mooncake trace (JSONL, ms, 512 tokens per hash id).

    The published times of the conversation trace come in ticks of about 3 s with some ten
    requests on each, which would be bursts that nobody sent. Such a trace has its requests
    spread evenly at random over the tick that follows, in their order; the sidecar's `jitter`
    table says so. Raises ProfileError like `load_profile`.
    """
    text = decode(path, read_bytes(path))
    rows = parse_rows(path, text, MOONCAKE_BLOCK_TOKENS)
    start_ns = rows.requests[0].arrival_ns
    requests = tuple(replace(r, arrival_ns=r.arrival_ns - start_ns) for r in rows.requests)
    tick_ns = detect_tick_ns([request.arrival_ns for request in requests])
    made_by = f"advisor profile import mooncake {path.name}"
    tables: dict[str, Table] = {}
    if tick_ns is not None:
        requests = _spread(requests, tick_ns, seed)
        made_by += f" --seed {seed}"
        tables["jitter"] = {"tick_ms": float(milliseconds(tick_ns)), "seed": seed}
    return Imported(
        Profile(
            name=path.stem,
            requests=requests,
            block_tokens=MOONCAKE_BLOCK_TOKENS,
            sha256=fingerprint(requests),
            source=f"{path.name}, kvcache-ai/Mooncake",
            licence="Apache-2.0",
            made_by=made_by,
            dropped=rows.dropped,
        ),
        tables,
    )


def detect_tick_ns(arrivals_ns: Sequence[int]) -> int | None:
    """The clock's tick: the median step between distinct times; None when it is fine enough."""
    distinct = sorted(set(arrivals_ns))
    if len(distinct) < 2 or len(arrivals_ns) < _TICKED * len(distinct):
        return None
    return int(median(after - before for before, after in pairwise(distinct)))


def _spread(requests: Sequence[Request], tick_ns: int, seed: int) -> tuple[Request, ...]:
    random = Random(seed)
    spread: list[Request] = []
    for arrival_ns, count in Counter(request.arrival_ns for request in requests).items():
        offsets = sorted(int(random.random() * tick_ns) for _ in range(count))
        for offset_ns in offsets:
            spread.append(replace(requests[len(spread)], arrival_ns=arrival_ns + offset_ns))
    # ticks that came early overlap the one before by a little
    return tuple(sorted(spread, key=lambda request: request.arrival_ns))
