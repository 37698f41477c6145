"""How long a step takes: a roofline over weights, KV cache and arithmetic, plus host time.

All coefficients are integers in femtoseconds and every duration is an integer in nanoseconds, so
that a run of steps computed as a vector equals the same steps computed one by one.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from advisor.sim.config import EngineConfig
from advisor.sim.hardware import Hardware
from advisor.sim.steps import Run

_FS_PER_S = 10**15
_FS_PER_NS = 10**6

#: Share of the data sheet's bandwidth that streaming reads of weights reach. This and the next
#: two, marked *, were fitted together on the mean TPOT of two recorded vLLM 0.19.0 runs (RTX 4090
#: and RTX PRO 6000, casys-kaist/LLMServingSim bench/examples): 2 % and 1 % off.
BANDWIDTH_EFFICIENCY = 0.92
#: * The same for the KV cache, read in blocks.
KV_EFFICIENCY = 0.75
#: Attention in prefill against the dense peak: FlashAttention-2 reports 50 to 73 % on an A100.
ATTENTION_EFFICIENCY = 0.5
#: * Host and launch time in every step, in ns.
STEP_NS = 1_000_000
#: * Sampling, block tables and output of one sequence in one step, in ns.
SEQUENCE_NS = 20_000
#: Without CUDA graphs each layer's kernels are launched one by one: BLIS fits 32 us a layer.
EAGER_LAYER_NS = 32_000
#: One all-reduce starts no faster than this (ring over NVLink or PCIe), in ns; two a layer.
ALL_REDUCE_NS = 10_000
#: HTTP, tokeniser and queue hand-over of a request before the scheduler sees it, in ns:
#: BLIS fits 15.6 ms.
INGEST_NS = 15_600_000
#: From the end of a step to the client: detokenise, serialise, send. BLIS fits 0.78 ms.
EMIT_NS = 780_000
#: Standard deviation of the logarithm of a factor common to all step times of one launch.
#: Assumed, not fitted: no public record repeats launches of one setting on an idle machine.
LAUNCH_SPREAD = 0.01


def decode_ceiling(hardware: Hardware, weight_bytes: float) -> float:
    """Tokens/s of a single stream if reading all weights per token were the only cost."""
    return hardware.bandwidth_bytes_per_s / weight_bytes


@dataclass(frozen=True, slots=True)
class CostModel:
    """Coefficients in femtoseconds."""

    #: in every step, whatever it computes: launches, host
    step_fs: int
    #: reading the weights
    weights_fs: int
    #: matrix products of one token
    token_fs: int
    #: reading the KV of one token of context
    context_fs: int
    #: attention of one prefill token to one token of context
    pair_fs: int
    sequence_fs: int
    #: all-reduce traffic of one token
    reduce_fs: int

    @classmethod
    def of(cls, config: EngineConfig, seed: int = 0) -> "CostModel":
        """The launch numbered `seed` of a configuration: all its steps share one drift factor."""
        shape, device, precision = config.model, config.hardware, config.precision
        parallel = config.tensor_parallel_size
        bandwidth = device.bandwidth_bytes_per_s * BANDWIDTH_EFFICIENCY
        flops = precision.flops * device.compute_efficiency / precision.unpack
        attention = device.flops_16bit * ATTENTION_EFFICIENCY * 2 / shape.element_bytes
        linear = shape.linear_parameters
        eager = config.enforce_eager and not device.is_cpu
        host_ns = STEP_NS + (EAGER_LAYER_NS * shape.layers if eager else 0)
        if parallel > 1:
            host_ns += 2 * ALL_REDUCE_NS * shape.layers
        drift = math.exp(random.Random(f"launch {seed}").gauss(0, LAUNCH_SPREAD))

        def fs(seconds: float) -> int:
            return round(seconds * drift * _FS_PER_S)

        return cls(
            step_fs=fs(host_ns / 1e9),
            weights_fs=fs(shape.step_weight_bytes(precision.linear_bytes) / parallel / bandwidth),
            # The output head runs for sampled tokens only; at 2 FLOP per weight and token.
            token_fs=fs(2 * linear / parallel / flops),
            context_fs=fs(
                config.kv_bytes_per_token / device.bandwidth_bytes_per_s / KV_EFFICIENCY
            ),
            # Scores and weighted values: 2 products of 2 x head dim FLOP, per head and layer.
            pair_fs=fs(4 * shape.layers * shape.heads * shape.head_dim / parallel / attention),
            sequence_fs=fs(SEQUENCE_NS / 1e9),
            reduce_fs=fs(_reduce_seconds(config)),
        )

    def step_ns(self, tokens: int, context: int, pairs: int, sequences: int) -> int:
        """One step of `tokens` in all, over contexts of `context` tokens in all, in ns."""
        return self._step_fs(tokens, context, pairs, sequences) // _FS_PER_NS

    def run_ns(self, run: Run) -> Iterator[int]:
        """The same for each step of a run, without end."""
        total_fs = self._step_fs(
            run.total_tokens, run.context_tokens, run.prefill_pairs, run.sequences
        )
        longer_fs = run.total_tokens * self.context_fs + run.more_pairs * self.pair_fs
        return (each // _FS_PER_NS for each in count(total_fs, longer_fs))

    def _step_fs(self, tokens: int, context: int, pairs: int, sequences: int) -> int:
        roofline = max(self.weights_fs, tokens * self.token_fs)
        attention = context * self.context_fs + pairs * self.pair_fs
        others = self.step_fs + sequences * self.sequence_fs + tokens * self.reduce_fs
        return roofline + attention + others


def _reduce_seconds(config: EngineConfig) -> float:
    """Two ring all-reduces a layer move 2 (n - 1) / n of each hidden vector over the link."""
    parallel, link = config.tensor_parallel_size, config.hardware.link_bytes_per_s
    if parallel == 1 or link is None:
        return 0.0
    vector = config.model.hidden * config.model.element_bytes
    return 2 * config.model.layers * 2 * (parallel - 1) / parallel * vector / link
