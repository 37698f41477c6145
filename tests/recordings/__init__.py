"""Launches of a real vLLM, as recorded by `tests/real/record_steps.py`: requests and steps.

Each file holds one launch with `--enable-logging-iteration-details`, one JSON object, gzipped.
"""

import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.calibrate.iterlog import LoggedStep
from advisor.sim.steps import Limits
from advisor.terms.flags import FlagValue
from advisor.terms.load import Load
from advisor.terms.profile import PlannedRequest

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Recording:
    """What was asked of one launch and what its engine logged."""

    vllm: str
    flags: dict[str, FlagValue]
    #: as the server itself exports them; the null block included
    block_size: int
    num_blocks: int
    #: prompt tokens that each id covers
    block_tokens: int
    #: [input tokens, output tokens, prefix ids], in the order sent
    requests: list[tuple[int, int, list[int]]]
    #: [context requests, context tokens, generation requests, generation tokens, elapsed in
    #: microseconds, KV cache in use after the step in thousandths]
    steps: list[tuple[int, int, int, int, int, int]]
    #: the server's counters over these requests
    preemptions: int
    prefix_queries: int
    prefix_hits: int

    def limits(self) -> Limits:
        def number(name: str, default: int) -> int:
            return int(self.flags.get(name, default))

        return Limits(
            max_num_batched_tokens=number("max_num_batched_tokens", 2048),
            max_num_seqs=number("max_num_seqs", 128),
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            enable_prefix_caching=bool(self.flags.get("enable_prefix_caching", True)),
            enable_chunked_prefill=bool(self.flags.get("enable_chunked_prefill", True)),
            long_prefill_token_threshold=number("long_prefill_token_threshold", 0),
        )

    def load(self) -> Load:
        """In order of arrival; when is left open."""
        requests = [PlannedRequest(0, a, b, tuple(ids), True) for a, b, ids in self.requests]
        return Load.of(requests, self.block_tokens)

    def logged(self) -> list[LoggedStep]:
        return [
            LoggedStep(index, a, b, c, d, elapsed_ns=us * 1_000, kv_cache_usage=used / 1_000)
            for index, (a, b, c, d, us, used) in enumerate(self.steps)
        ]


def write(recording: Recording, path: Path) -> None:
    """The same bytes for the same recording."""
    text = json.dumps(asdict(recording), separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def read(path: Path) -> Recording:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return Recording(**found)
