"""What goes into the scheduler and what comes out of it: limits, a step, a run of steps."""

from dataclasses import dataclass

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

    requests: list[int]
    #: tokens computed for each, >= 1
    tokens: list[int]
    total_tokens: int = 0
    #: length of every context after the step, summed: the KV that attention reads
    context_tokens: int = 0
    #: (token, context) pairs of requests that compute more than one token
    prefill_pairs: int = 0
    #: requests not listed, which compute one token each
    decodes: int = 0

    @property
    def sequences(self) -> int:
        return len(self.requests) + self.decodes


@dataclass(frozen=True, slots=True)
class Run:
    """Coming steps whose composition cannot change.

    One token for each request that decodes and perhaps, with all the rest of the budget, another
    chunk of one prompt. The sums are those of the first step.
    """

    #: up to the next finish, and before the prompt's last chunk
    steps: int
    sequences: int
    total_tokens: int
    #: grows by `total_tokens` a step
    context_tokens: int
    prefill_pairs: int
    #: by how much they grow a step
    more_pairs: int
    #: blocks that each step needs, again and again; the run ends when they are not to be had
    blocks: list[int]
    #: whether a new arrival would have to wait, so cannot end the run
    is_closed: bool
