"""What a quantisation flag does to bytes and arithmetic on one device."""

from dataclasses import dataclass

from advisor.sim.hardware import Hardware
from advisor.sim.models import ModelShape
from advisor.sim.refusal import refused
from advisor.terms.outcome import Reason

#: Time of a matrix product whose weights are unpacked on the way, against 16-bit ones. At 500
#: concurrent requests GPTQ and AWQ took 1.12 and 1.38 times as long as 16-bit (vLLM issue 3399
#: and its neighbours, old kernels); 8-bit weights unpack with one multiplication.
_UNPACK_4BIT = 1.25
_UNPACK_8BIT = 1.1

#: Flags that quantise a plain checkpoint while loading (vLLM 0.33.0, online quantisation).
_ONLINE_FP8 = frozenset({"fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel"})
_ONLINE_INT8 = "int8_per_channel_weight_only"
#: Flag -> the checkpoint format it reads.
_READS = {
    "awq": "awq",
    "awq_marlin": "awq",
    "auto_awq": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "auto_gptq": "gptq",
    "fp8": "fp8",
}
_KV_BYTES = {
    "auto": None,
    "float16": 2.0,
    "bfloat16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
}
#: dtype -> bytes; None follows the checkpoint.
DTYPE_BYTES = {"auto": None, "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


@dataclass(frozen=True, slots=True)
class Precision:
    """How weights are stored and multiplied."""

    #: effective method, None for plain weights
    method: str | None
    #: bytes per weight of the linear layers
    linear_bytes: float
    #: FLOP/s of the matrix products before efficiency
    flops: float
    #: their time is multiplied by this
    unpack: float


def weight_precision(model: ModelShape, hardware: Hardware, asked: str | None) -> Precision:
    """What `--quantization asked` means here; raises LaunchFailed where vLLM refuses.

    FP8 on a GPU without FP8 units is weight-only (half the bytes, 16-bit arithmetic), as vLLM's
    Marlin kernels do it; on a CPU it is refused.
    """
    method = _method(model, asked)
    # 32-bit arithmetic runs at half the 16-bit rate.
    flops = hardware.flops_16bit * 2 / model.element_bytes
    if method is None:
        return Precision(None, float(model.element_bytes), flops, 1.0)
    if method in _ONLINE_FP8:
        if hardware.is_cpu:
            raise _unsupported(method, hardware)
        if hardware.flops_fp8 is None:
            return Precision(method, 1.0, flops, _UNPACK_8BIT)
        return Precision(method, 1.0, hardware.flops_fp8, 1.0)
    if method == _ONLINE_INT8:
        return Precision(method, 1.0, flops, _UNPACK_8BIT)
    return Precision(method, model.quantized_bytes or 0.52, flops, _UNPACK_4BIT)


def _method(model: ModelShape, asked: str | None) -> str | None:
    known = {*_ONLINE_FP8, _ONLINE_INT8, *_READS}
    if asked is not None and asked not in known:
        raise refused(
            Reason.UNSUPPORTED,
            "config",
            f"Unknown quantization method: {asked}. Must be one of {sorted(known)}.",
        )
    has = model.quantization
    if has is None:
        if asked in _READS and asked not in _ONLINE_FP8:
            raise refused(Reason.UNSUPPORTED, "config", f"Cannot find the config file for {asked}")
        return asked
    if asked is not None and _READS.get(asked) != has:
        raise refused(
            Reason.UNSUPPORTED,
            "config",
            f"Quantization method specified in the model config ({has}) does not match the "
            f"quantization method specified in the `quantization` argument ({asked}).",
        )
    return has


def kv_element_bytes(model: ModelShape, hardware: Hardware, dtype: str) -> float:
    """Bytes per element of the KV cache; raises LaunchFailed where vLLM refuses."""
    if dtype not in _KV_BYTES:
        raise refused(
            Reason.INVALID_SETTING,
            "config",
            f"Invalid kv_cache_dtype: {dtype}; the simulator models {', '.join(_KV_BYTES)}",
        )
    each = _KV_BYTES[dtype]
    if each == 1.0 and hardware.is_cpu:
        raise refused(
            Reason.UNSUPPORTED, "config", "FP8 KV cache on CPU requires x86 with AVX-512 or AMX"
        )
    return float(model.element_bytes) if each is None else each


def _unsupported(method: str, hardware: Hardware) -> Exception:
    return refused(
        Reason.UNSUPPORTED,
        "config",
        f"{method} quantization is currently not supported in {hardware.name}.",
    )
