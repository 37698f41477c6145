"""The words with which vLLM refuses to start, one refusal for each fault at start.

The sentences that tell the cause are those of vLLM 0.32 and 0.33 (under `vllm/`: config/, v1/core/
kv_cache_planning.py, v1/worker/utils.py, gpu_worker.py, gpu_model_runner.py), of argparse, PyTorch
and Python. What stands around them is as vLLM logs it: each process marks its lines, an executor
repeats what its worker said, and the API server ends with words that are never the cause.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.standin.faults import Fault
from advisor.standin.startup import print_as

TRACE = "Traceback (most recent call last):"
_FAILED = "EngineCore failed to start."
_WRAPPER = (
    "RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {'EngineCore': 1}"
)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.03 GiB is free."
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a process prints before it ends without having served."""

    lines: tuple[str, ...]
    exit_status: int = 1
    #: whether the engine's process says it, and the API server wraps it
    by_engine: bool = True


def _config(message: str) -> Refusal:
    """A refused configuration, as pydantic reports it."""
    report = "1 validation error for VllmConfig"
    return Refusal(
        (
            TRACE,
            f"pydantic_core._pydantic_core.ValidationError: {report}",
            f"  Value error, {message} [type=value_error, input_value=ArgsKwargs(()), "
            "input_type=ArgsKwargs]",
        ),
        by_engine=False,
    )


def _arguments(message: str) -> Refusal:
    return Refusal((f"vllm serve: error: {message}",), exit_status=2, by_engine=False)


def _raised(error: str, *frames: str) -> Refusal:
    files = (f'  File "vllm/v1/worker/gpu_model_runner.py", line 1, in {name}' for name in frames)
    return Refusal((TRACE, *files, error))


REFUSALS: Mapping[Fault, Refusal] = {
    Fault.INVALID_SETTING: _config(
        "max_num_batched_tokens (64) must be greater than or equal to max_num_seqs (128)."
    ),
    Fault.REMOVED_FLAG: _arguments("unrecognized arguments: --swap-space 4"),
    Fault.UNSUPPORTED: _config(
        "The quantization method modelopt_fp4 is not supported for the current GPU. Minimum "
        "capability: 100. Current capability: 90."
    ),
    Fault.MODEL_UNAVAILABLE: _raised(
        "RuntimeError: Cannot find any model weights with `/models/absent`", "load_model"
    ),
    Fault.OOM_LOAD: _raised(
        "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to "
        f"free memory for weights. {OUT_OF_MEMORY}",
        "load_model",
    ),
    Fault.OOM_PROFILING: _raised(
        OUT_OF_MEMORY, "determine_available_memory", "profile_run", "_dummy_run"
    ),
    Fault.OOM_GRAPH_CAPTURE: _raised(
        OUT_OF_MEMORY, "compile_or_warm_up_model", "capture_model", "_capture_cudagraphs"
    ),
    Fault.OOM_SAMPLER: _raised(
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
        "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when "
        "initializing the engine.",
        "_dummy_sampler_run",
    ),
    Fault.KV_CACHE_TOO_SMALL: _raised(
        "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (10.0 GiB). "
        "Based on the available memory, the estimated maximum model length is 81920. Try "
        "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing "
        "the engine."
    ),
    Fault.MEMORY_TAKEN: _raised(
        "ValueError: Free memory on device cuda:0 (11.7/79.11 GiB) on startup is less than "
        "desired GPU memory utilization (0.92, 72.78 GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes."
    ),
    Fault.MEMORY_RACE: _raised(
        "AssertionError: Error in memory profiling. Initial free memory 60.9 GiB, current free "
        "memory 71.2 GiB. This happens when other processes sharing the same container release "
        "GPU memory while vLLM is profiling during initialization."
    ),
    Fault.PORT_TAKEN: Refusal(
        (TRACE, "OSError: [Errno 98] Address already in use"), by_engine=False
    ),
    Fault.DRIVER_FAULT: _raised(
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error "
        "802: system not yet initialized"
    ),
    Fault.UNCLASSIFIED: _raised("RuntimeError: flux capacitor is not aligned"),
    Fault.DIED: Refusal((), by_engine=False),
}


def refuse(fault: Fault) -> int:
    """Print a refusal to stderr as its processes would; returns the exit status."""
    refusal = REFUSALS[fault]
    if refusal.by_engine:
        print_as("EngineCore", "core.py:1136", (_FAILED, *refusal.lines))
        sys.stderr.writelines(f"{line}\n" for line in (TRACE, _WRAPPER))
    else:
        sys.stderr.writelines(f"{line}\n" for line in refusal.lines)
    return refusal.exit_status
