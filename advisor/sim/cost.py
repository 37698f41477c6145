"""How long a step takes: a roofline over weights, KV cache and arithmetic, plus host time.

All coefficients are integers, mostly in femtoseconds, and every duration is an integer in
nanoseconds, so that the compiled form equals the plain one to the bit.
"""

import math
import random
from dataclasses import dataclass

import numpy as np

from advisor.sim.config import EngineConfig
from advisor.sim.hardware import Hardware
from advisor.sim.memory import largest_capture
from advisor.sim.models import ModelShape
from advisor.sim.steps import Batch
from advisor.terms.traces import Int64

_FS_PER_S = 10**15
_FS_PER_NS = 10**6
_PER_MILLION = 10**6

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
#: Host time between two steps of a CPU server, in ns: for the step, and for each sequence in it.
#: One vLLM 0.32 launch on 2 cores, its load generator beside it: the gaps between logged steps.
CPU_HOST_NS = 1_000_000
CPU_HOST_SEQUENCE_NS = 470_000
#: Standard deviation of the logarithm of a factor common to all step times of one launch.
#: Assumed, not fitted: no public record repeats launches of one setting on an idle machine.
LAUNCH_SPREAD = 0.01
#: The same of a factor of its own for each step. Assumed: no public record has step times.
STEP_SPREAD = 0.02
#: Factors are drawn once and used in turns; a prime, so that they beat against no other period.
_NUM_FACTORS = 4093


def decode_ceiling(hardware: Hardware, weight_bytes: float) -> float:
    """Tokens/s of a single stream if reading all weights per token were the only cost."""
    return hardware.bandwidth_bytes_per_s / weight_bytes


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """Coefficients of one launch; in femtoseconds unless the name says otherwise."""

    #: [t]: reading the weights that t tokens need, the last for all more; one for a dense model,
    #: while tokens of a mixture of experts spread over more and more of them
    weights_fs: tuple[int, ...]
    #: matrix products of one token
    token_fs: int
    #: reading the KV of one token of context
    context_fs: int
    #: attention of one prefill token to one token of context
    pair_fs: int
    #: a request that computes more than one token
    prefill_fs: int
    #: in every step, whatever it computes
    step_fs: int
    #: in every step, for each sequence in it
    sequence_fs: int
    #: all-reduce traffic of one token
    reduce_fs: int
    #: launching kernels one by one, where no CUDA graph fits
    launch_fs: int
    #: most tokens for which there is a CUDA graph; 0: none at all
    largest_graph: int
    #: host work between two steps: hidden behind the step with asynchronous scheduling
    host_fs: int
    host_sequence_fs: int
    #: batches in flight: 2 with asynchronous scheduling
    depth: int
    #: until the scheduler sees a request, and from the end of a step to the client
    ingest_ns: int
    emit_ns: int
    #: int64: what each step's time is multiplied by, in millionths, in turns
    factors: Int64

    @classmethod
    def of(cls, config: EngineConfig, seed: int = 0) -> "CostModel":
        """The launch numbered `seed` of a configuration: all its steps share one drift factor."""
        shape, device, precision = config.model, config.hardware, config.precision
        parallel = config.tensor_parallel_size
        flops = precision.flops * device.compute_efficiency / precision.unpack
        attention = device.flops_16bit * ATTENTION_EFFICIENCY * 2 / shape.element_bytes
        reduce_ns = 2 * ALL_REDUCE_NS * shape.layers if parallel > 1 else 0
        graphs = not (config.enforce_eager or device.is_cpu)
        return cls(
            weights_fs=tuple(map(_fs, _weight_seconds(config))),
            # The output head runs for sampled tokens only; at 2 FLOP per weight and token.
            token_fs=_fs(2 * shape.active_linear_parameters / parallel / flops),
            context_fs=_fs(
                config.kv_bytes_per_token / device.bandwidth_bytes_per_s / KV_EFFICIENCY
            ),
            # Scores and weighted values: 2 products of 2 x head dim FLOP, per head and layer.
            pair_fs=_fs(4 * shape.layers * shape.heads * shape.head_dim / parallel / attention),
            prefill_fs=0,
            step_fs=_fs((STEP_NS + reduce_ns) / 1e9),
            sequence_fs=_fs(SEQUENCE_NS / 1e9),
            reduce_fs=_fs(_reduce_seconds(config)),
            launch_fs=0 if device.is_cpu else _fs(EAGER_LAYER_NS * shape.layers / 1e9),
            largest_graph=largest_capture(config.max_num_seqs) if graphs else 0,
            host_fs=_fs(CPU_HOST_NS / 1e9) if device.is_cpu else 0,
            host_sequence_fs=_fs(CPU_HOST_SEQUENCE_NS / 1e9) if device.is_cpu else 0,
            depth=2 if config.async_scheduling else 1,
            ingest_ns=INGEST_NS,
            emit_ns=EMIT_NS,
            factors=_factors(seed),
        )

    def step_ns(self, batch: Batch, step: int) -> int:
        """How long the step numbered `step` keeps the device busy, in ns.

        Up to the largest CUDA graph a batch is padded to the next captured size, and computes as
        much; beyond, every kernel is launched by itself.
        """
        tokens = padded(batch.total_tokens, self.largest_graph)
        roofline = max(
            self.weights_fs[min(tokens, len(self.weights_fs) - 1)], tokens * self.token_fs
        )
        attention = batch.context_tokens * self.context_fs + batch.prefill_pairs * self.pair_fs
        others = (
            self.step_fs
            + batch.sequences * self.sequence_fs
            + batch.prefills * self.prefill_fs
            + tokens * self.reduce_fs
        )
        if tokens > self.largest_graph:
            others += self.launch_fs
        exact_ns = (roofline + attention + others) // _FS_PER_NS
        return exact_ns * int(self.factors[step % len(self.factors)]) // _PER_MILLION

    def cycle_ns(self, busy_ns: int, sequences: int) -> int:
        """From the start of a step of `busy_ns` to the earliest start of the next, in ns."""
        host_ns = (self.host_fs + sequences * self.host_sequence_fs) // _FS_PER_NS
        return max(busy_ns, host_ns) if self.depth > 1 else busy_ns + host_ns

    def as_integers(self) -> Int64:
        """int64: what is a number, in the order that `kernel.py` names."""
        return np.array(
            [
                self.token_fs,
                self.context_fs,
                self.pair_fs,
                self.prefill_fs,
                self.step_fs,
                self.sequence_fs,
                self.reduce_fs,
                self.launch_fs,
                self.largest_graph,
                self.host_fs,
                self.host_sequence_fs,
                self.depth,
                self.emit_ns,
            ],
            dtype=np.int64,
        )


def padded(tokens: int, largest_graph: int) -> int:
    """The size that vLLM 0.33.0 captured for so many tokens; the tokens themselves beyond."""
    if tokens > largest_graph or tokens <= 2:
        return tokens
    if tokens <= 4:
        return 4
    step = 8 if tokens <= 248 else 16
    return min(-(-tokens // step) * step, largest_graph)


def _fs(seconds: float) -> int:
    return round(seconds * _FS_PER_S)


def no_noise() -> Int64:
    """Factors for step times exactly as modelled."""
    return np.array([_PER_MILLION], dtype=np.int64)


def _factors(seed: int) -> Int64:
    drift = random.Random(f"launch {seed}").gauss(0, LAUNCH_SPREAD)
    noise = np.random.default_rng([seed, 1]).normal(drift, STEP_SPREAD, _NUM_FACTORS)
    factors: Int64 = (np.exp(noise) * _PER_MILLION).astype(np.int64)
    return factors


def _weight_seconds(config: EngineConfig) -> list[float]:
    """Reading what t = 0, 1, … tokens need, until all experts are as good as touched.

    A token takes k of E experts; of independent tokens t touch E (1 - (1 - k / E)^t) on average.
    """
    shape, parallel = config.model, config.tensor_parallel_size
    bandwidth = config.hardware.bandwidth_bytes_per_s * BANDWIDTH_EFFICIENCY * parallel
    everything = shape.step_weight_bytes(config.precision.linear_bytes)
    if shape.experts == 0:
        return [everything / bandwidth]
    experts = shape.expert_parameters * config.precision.linear_bytes
    untouched = 1 - shape.experts_per_token / shape.experts
    enough = 1 if untouched <= 0 else math.ceil(math.log(1e-3) / math.log(untouched))
    return [
        (everything - experts * untouched**tokens * (tokens < enough)) / bandwidth
        for tokens in range(enough + 1)
    ]


def _reduce_seconds(config: EngineConfig) -> float:
    """Two ring all-reduces a layer move 2 (n - 1) / n of each hidden vector over the link."""
    parallel, link = config.tensor_parallel_size, config.hardware.link_bytes_per_s
    if parallel == 1 or link is None:
        return 0.0
    shape: ModelShape = config.model
    vector = shape.hidden * shape.element_bytes
    return 2 * shape.layers * 2 * (parallel - 1) / parallel * vector / link
