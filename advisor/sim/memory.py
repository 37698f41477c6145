"""Where device memory goes at start-up, and what is left for the KV pool."""

from dataclasses import dataclass

from advisor.sim.hardware import Hardware
from advisor.sim.models import ModelShape
from advisor.sim.refusal import refused
from advisor.terms.outcome import Reason

_GIB = 1 << 30

#: CUDA context, cuBLAS and attention workspaces, in every process: what a recorded RTX 4090 start
#: (vLLM 0.19.0, utilisation 0.9, 2588 blocks left) leaves after weights and activations.
_RUNTIME_BYTES = 800 << 20
_RUNTIME_BYTES_CPU = 1200 << 20
#: Live 16-bit activation elements per batched token at the peak of one layer: the gate and up
#: projections (2 x intermediate) and a few hidden vectors. For the common 8B shape about 104 KB a
#: token; vLLM issue 48322 lost 3,744 KV tokens to 6,144 more batched ones, 80 KB each if its KV
#: is that shape's too.
_HIDDEN_VECTORS = 6
#: Sampler warm-up: logits of every sequence in float32, sorted into a copy of 16 bits.
_LOGIT_BYTES = 6
#: Per captured CUDA graph; some 50 graphs then take 0.6 GiB. When vLLM's accounting first included
#: them (v0.21) a utilisation of 0.8048 became 0.82: 1.5 % of a device, 0.7 GiB of 48.
_GRAPH_BYTES = 12 << 20
#: Above this share nothing is left for driver and fragmentation: graph capture fails.
DRIVER_LIMIT = 0.97


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes on one device; `kv_bytes` holds `num_blocks` blocks, one of them the null block."""

    weight_bytes: int
    activation_bytes: int
    graph_bytes: int
    kv_bytes: int
    num_blocks: int


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """What decides the plan, per device of the tensor-parallel group."""

    weight_bytes: int
    kv_bytes_per_token: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    block_size: int
    tensor_parallel_size: int
    enforce_eager: bool
    utilization: float


def activation_bytes(model: ModelShape, demand: MemoryDemand) -> int:
    """Peak of the profiling run; grows with the batched tokens."""
    elements = 2 * model.intermediate // demand.tensor_parallel_size
    elements += _HIDDEN_VECTORS * model.hidden
    layer = demand.max_num_batched_tokens * elements * model.element_bytes
    rows = min(demand.max_num_seqs, demand.max_num_batched_tokens)
    return layer + rows * model.vocab * _LOGIT_BYTES


def capture_sizes(max_num_seqs: int) -> list[int]:
    """The batch sizes vLLM captures: 1, 2, 4, then every 8th, from 256 every 16th, to 512."""
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return [size for size in sizes if size <= 2 * max_num_seqs]


def largest_capture(max_num_seqs: int) -> int:
    """Most tokens for which there is a CUDA graph."""
    return capture_sizes(max_num_seqs)[-1]


def plan_memory(model: ModelShape, hardware: Hardware, demand: MemoryDemand) -> MemoryPlan:
    """Divide the device's memory as vLLM's start-up does.

    Raises LaunchFailed in the order in which a start meets the walls: oom_load, oom_profiling,
    kv_cache_too_small, oom_graph_capture.
    """
    total = hardware.memory_bytes
    runtime = _RUNTIME_BYTES_CPU if hardware.is_cpu else _RUNTIME_BYTES
    loaded = demand.weight_bytes + runtime
    if loaded > total:
        raise refused(
            Reason.OOM_LOAD,
            "load",
            f"CUDA out of memory. Failed to load model - not enough GPU memory: the weights take "
            f"{_gib(demand.weight_bytes)} GiB of {_gib(total)} GiB on {hardware.name}",
            loaded / total - 1,
        )
    activations = activation_bytes(model, demand)
    if loaded + activations > total:
        raise refused(
            Reason.OOM_PROFILING,
            "profiling",
            f"CUDA out of memory. Profiling with {demand.max_num_batched_tokens} batched tokens "
            f"needs {_gib(activations)} GiB beside {_gib(loaded)} GiB of {_gib(total)} GiB",
            (loaded + activations) / total - 1,
        )
    eager = demand.enforce_eager or hardware.is_cpu
    graphs = 0 if eager else len(capture_sizes(demand.max_num_seqs)) * _GRAPH_BYTES
    available = int(total * demand.utilization) - loaded - activations - graphs
    blocks = _blocks(demand, available)
    if not eager and demand.utilization > DRIVER_LIMIT:
        raise refused(
            Reason.OOM_GRAPH_CAPTURE,
            "graph_capture",
            f"CUDA out of memory during graph capture: --gpu-memory-utilization "
            f"{demand.utilization:g} leaves too little outside the pool, at most {DRIVER_LIMIT:g}",
            demand.utilization / DRIVER_LIMIT - 1,
        )
    return MemoryPlan(demand.weight_bytes, activations, graphs, available, blocks)


def _blocks(demand: MemoryDemand, available: int) -> int:
    """Whole blocks in the pool; the longest request must fit beside the null block."""
    need = demand.max_model_len * demand.kv_bytes_per_token
    if available <= 0:
        raise refused(
            Reason.KV_CACHE_TOO_SMALL,
            "kv_cache",
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
            "when initializing the engine.",
            _shortfall(need, available),
        )
    blocks = available // (demand.kv_bytes_per_token * demand.block_size)
    usable_tokens = max(0, (blocks - 1) * demand.block_size)
    if usable_tokens < demand.max_model_len:
        raise refused(
            Reason.KV_CACHE_TOO_SMALL,
            "kv_cache",
            f"To serve at least one request with the model's max seq len "
            f"({demand.max_model_len}), ({_gib(need)} GiB KV cache is needed, which is larger "
            f"than the available KV cache memory ({_gib(available)} GiB). Based on the available "
            f"memory, the estimated maximum model length is {usable_tokens}.",
            _shortfall(need, available),
        )
    return blocks


def _shortfall(need: int, available: int) -> float:
    """Needed / available - 1, carried on past nothing available so that less is always worse."""
    if available * 100 >= need:
        return max(need / available - 1, 0.0)
    return 99 + (need / 100 - available) / need


def _gib(count: int) -> str:
    return f"{count / _GIB:.2f}"
