"""What goes into the scheduler and what comes out of it: limits, and one step."""

from dataclasses import dataclass, field

from advisor.sim.config import EngineConfig


@dataclass(frozen=True, slots=True)
class Limits:
    """The part of the configuration that scheduling depends on."""

    max_num_batched_tokens: int
    max_num_seqs: int
    block_size: int
    num_blocks: int
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0

    @classmethod
    def of(cls, config: EngineConfig) -> "Limits":
        return cls(
            config.max_num_batched_tokens,
            config.max_num_seqs,
            config.block_size,
            config.memory.num_blocks,
            config.enable_prefix_caching,
            config.enable_chunked_prefill,
            config.long_prefill_token_threshold,
        )


@dataclass(slots=True)
class Batch:
    """One step: what is computed, and the sums its duration depends on."""

    requests: list[int] = field(default_factory=list)
    #: tokens computed for each, >= 1
    tokens: list[int] = field(default_factory=list)
    #: those of them that get a token from it
    emitting: list[int] = field(default_factory=list)
    total_tokens: int = 0
    #: length of every context after the step, summed: the KV that attention reads
    context_tokens: int = 0
    #: (token, context) pairs of requests that compute more than one token
    prefill_pairs: int = 0
    #: requests that compute more than one token
    prefills: int = 0
    #: requests without an output token yet, and the tokens computed for them: what vLLM's
    #: iteration log calls context requests and context tokens
    prompt_requests: int = 0
    prompt_tokens: int = 0

    @property
    def sequences(self) -> int:
        return len(self.requests)
