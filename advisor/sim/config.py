"""A Setting on a device -> the engine's effective configuration, as vLLM resolves it."""

from dataclasses import dataclass, replace

from advisor.sim.flagvalues import FlagReader, invalid
from advisor.sim.hardware import Hardware
from advisor.sim.memory import MemoryDemand, MemoryPlan, plan_memory
from advisor.sim.models import ModelShape, model
from advisor.sim.precision import DTYPE_BYTES, Precision, kv_element_bytes, weight_precision
from advisor.terms.flags import FlagValue
from advisor.terms.setting import Setting

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that the simulator's timing depends on."""

    model: ModelShape
    hardware: Hardware
    precision: Precision
    kv_bytes_per_token: int
    memory: MemoryPlan
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    gpu_memory_utilization: float
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    long_prefill_token_threshold: int
    block_size: int
    tensor_parallel_size: int
    dtype: str
    kv_cache_dtype: str
    enforce_eager: bool
    #: two batches in flight: the next one is chosen while one runs
    async_scheduling: bool

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the pool holds; one block is the null block."""
        return (self.memory.num_blocks - 1) * self.block_size

    def resolved_flags(self) -> dict[str, FlagValue]:
        """Every modelled flag's effective value; quantisation is absent when there is none."""
        flags: dict[str, FlagValue] = {
            "async_scheduling": self.async_scheduling,
            "block_size": self.block_size,
            "dtype": self.dtype,
            "enable_chunked_prefill": self.enable_chunked_prefill,
            "enable_prefix_caching": self.enable_prefix_caching,
            "enforce_eager": self.enforce_eager,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "kv_cache_dtype": self.kv_cache_dtype,
            "long_prefill_token_threshold": self.long_prefill_token_threshold,
            "max_model_len": self.max_model_len,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": self.max_num_seqs,
            "tensor_parallel_size": self.tensor_parallel_size,
        }
        if self.precision.method is not None:
            flags["quantization"] = self.precision.method
        return flags


def resolve(setting: Setting, hardware: Hardware) -> EngineConfig:
    """Apply vLLM 0.33.0's defaults and checks to a setting.

    Raises InputError for an unknown model, LaunchFailed where vLLM would not start.
    """
    flags = FlagReader(dict(setting.flags))
    shape = _with_dtype(model(setting.model), flags.word("dtype") or "auto")
    utilization = flags.number("gpu_memory_utilization")
    utilization = 0.92 if utilization is None else utilization
    if not 0 < utilization <= 1:
        raise invalid(f"--gpu-memory-utilization {utilization:g}: must be in (0, 1]")
    precision = weight_precision(shape, hardware, flags.word("quantization"))
    kv_cache_dtype = flags.word("kv_cache_dtype") or "auto"
    kv_element = kv_element_bytes(shape, hardware, kv_cache_dtype)
    parallel = _tensor_parallel(flags, shape, hardware)
    length = _max_model_len(flags, shape)
    chunked = flags.switch("enable_chunked_prefill", True)
    batched, seqs = _batch_limits(flags, hardware, length, chunked)
    demand = MemoryDemand(
        weight_bytes=shape.weight_bytes(precision.linear_bytes) // parallel,
        # KV heads are split over the group, and copied once there are more devices than heads.
        kv_bytes_per_token=shape.kv_bytes_per_token(kv_element) // min(parallel, shape.kv_heads),
        max_num_batched_tokens=batched,
        max_num_seqs=seqs,
        max_model_len=length,
        block_size=_block_size(flags, hardware),
        tensor_parallel_size=parallel,
        enforce_eager=flags.switch("enforce_eager", False),
        utilization=utilization,
    )
    return EngineConfig(
        model=shape,
        hardware=hardware,
        precision=precision,
        kv_bytes_per_token=demand.kv_bytes_per_token,
        memory=plan_memory(shape, hardware, demand),
        max_num_batched_tokens=batched,
        max_num_seqs=seqs,
        max_model_len=length,
        gpu_memory_utilization=utilization,
        enable_prefix_caching=flags.switch("enable_prefix_caching", True),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=_threshold(flags, length),
        block_size=demand.block_size,
        tensor_parallel_size=parallel,
        dtype="float32" if shape.element_bytes == 4 else "bfloat16",
        kv_cache_dtype=kv_cache_dtype,
        enforce_eager=demand.enforce_eager,
        async_scheduling=flags.switch("async_scheduling", not hardware.is_cpu),
    )


def _with_dtype(shape: ModelShape, dtype: str) -> ModelShape:
    if dtype not in DTYPE_BYTES:
        raise invalid(f"--dtype {dtype}: one of {', '.join(DTYPE_BYTES)}")
    each = DTYPE_BYTES[dtype]
    return shape if each is None else replace(shape, element_bytes=each)


def _tensor_parallel(flags: FlagReader, shape: ModelShape, hardware: Hardware) -> int:
    size = flags.integer("tensor_parallel_size", 1) or 1
    if shape.heads % size:
        raise invalid(
            f"Total number of attention heads ({shape.heads}) must be divisible by tensor "
            f"parallel size ({size})."
        )
    if size > 1 and hardware.link_bytes_per_s is None:
        raise invalid(f"--tensor-parallel-size {size}: 1 is modelled on {hardware.name}")
    return size


def _max_model_len(flags: FlagReader, shape: ModelShape) -> int:
    derived = shape.max_position_embeddings
    if flags.fits_itself("max_model_len"):
        raise invalid(
            "--max-model-len: fitting the length to the memory is not modelled; expected an "
            "integer >= 1"
        )
    length = flags.integer("max_model_len", 1) or derived
    if length > derived:
        raise invalid(
            f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
            f"(max_position_embeddings={derived}).",
            length / derived - 1,
        )
    return length


def _batch_limits(
    flags: FlagReader, hardware: Hardware, length: int, chunked: bool
) -> tuple[int, int]:
    """Batched tokens and sequences: vLLM's defaults by device, then its checks."""
    batched = flags.integer("max_num_batched_tokens", 1)
    seqs = flags.integer("max_num_seqs", 1)
    default_batched, default_seqs = _default_limits(hardware)
    if batched is None:
        batched = min(default_batched, (seqs or default_seqs) * length)
        if not chunked:
            batched = max(batched, length)
    if seqs is None:
        seqs = min(default_seqs, batched)
    if batched < seqs:
        raise invalid(
            f"max_num_batched_tokens ({batched}) must be greater than or equal to max_num_seqs "
            f"({seqs}).",
            seqs / batched - 1,
        )
    if not chunked and batched < length:
        raise invalid(
            f"max_num_batched_tokens ({batched}) is smaller than max_model_len ({length}), and "
            "chunked prefill is off: longer prompts could never be scheduled",
            length / batched - 1,
        )
    return batched, seqs


def _default_limits(hardware: Hardware) -> tuple[int, int]:
    """`get_batch_defaults` of vLLM 0.33.0 for the API server."""
    if hardware.is_cpu:
        return 2048, 128
    gib = hardware.memory_bytes / _GIB
    if gib >= 160:
        return 16384, 1024
    if gib >= 70 and not hardware.name.startswith("a100"):
        return 8192, 1024
    return 2048, 256


def _block_size(flags: FlagReader, hardware: Hardware) -> int:
    size = flags.integer("block_size", 1) or (128 if hardware.is_cpu else 16)
    if size % 16:
        raise invalid(f"--block-size {size}: must be a multiple of 16")
    return size


def _threshold(flags: FlagReader, length: int) -> int:
    threshold = flags.integer("long_prefill_token_threshold", 0) or 0
    if threshold > length:
        raise invalid(
            f"long_prefill_token_threshold ({threshold}) cannot be greater than the "
            f"max_model_len ({length})."
        )
    return threshold
