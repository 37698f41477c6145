"""What a server's own counters and log say against a replay that the client took for good."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.job import ServerFacts
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import PlannedRequest

Doubt = tuple[ReplayOutcome, str]
NO_DOUBT: Doubt = (ReplayOutcome.VALID, "")

#: Counters are read beside the traffic, so a few tokens fall on the other side of a reading.
_SLACK_SHARE, _SLACK_TOKENS = 0.02, 512
#: Work that a server does once for a new shape, while it serves (vLLM 0.32 and 0.33
#: `vllm/utils/jit_monitor.py`, `vllm/compilation/`, PyTorch's inductor).
_COMPILING = re.compile(
    r"(?:compil|autotun)\w*\W.{0,60}\bduring inference|Compiling a graph for"
    r"|torch\.compile (?:takes|took) |AUTOTUNE \w+\("
)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that a plan's requests can make a server do, in tokens, lead-in included."""

    prompt: int
    output: int
    #: of the prompts, what an endless cache would have from earlier requests of this replay
    shared: int


def ceiling(requests: Sequence[PlannedRequest], block_tokens: int) -> Ceiling:
    """Of requests in their planned order; a block counts as shared once it was planned before."""
    seen: set[int] = set()
    shared = 0
    for request in requests:
        blocks = 0
        while blocks < len(request.block_ids) and request.block_ids[blocks] in seen:
            blocks += 1
        shared += min(blocks * block_tokens, request.input_length)
        seen.update(request.block_ids)
    return Ceiling(
        prompt=sum(request.input_length for request in requests),
        output=sum(request.output_length for request in requests),
        shared=shared,
    )


def doubt(facts: ServerFacts, most: Ceiling, log: str) -> Doubt:
    """`contaminated` when the server did more than the plan can cause, `noisy` when something
    slowed it that the setting does not cause; `log` is what it wrote in the counted window.

    What a server does not tell says nothing against it.
    """
    for said, told, planned in (
        ("read {} prompt tokens, the plan has {}", facts.prompt_tokens, most.prompt),
        ("wrote {} tokens, the plan has {}", facts.generation_tokens, most.output),
        ("found {} prompt tokens in its cache, the plan shares {}", *_hits(facts, most)),
    ):
        if told is not None and told > planned * (1 + _SLACK_SHARE) + _SLACK_TOKENS:
            note = said.format(f"{told:.0f}", planned)
            return ReplayOutcome.CONTAMINATED, f"the server {note}: not this replay's alone"
    if facts.throttled:
        return ReplayOutcome.NOISY, f"the GPU was slowed: {', '.join(facts.throttled)}"
    if found := _COMPILING.search(log):
        line = log[log.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
        return ReplayOutcome.NOISY, f"the server compiled while it was measured: {line[:200]}"
    return NO_DOUBT


def _hits(facts: ServerFacts, most: Ceiling) -> tuple[float | None, int]:
    """A preempted request finds its own blocks again, so then hits prove nothing."""
    return (None if facts.preemptions else facts.prefix_cache_hits), most.shared
