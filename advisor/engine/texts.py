"""The texts by which a server says why it failed: one table, the first row that fits.

The texts are those of vLLM 0.32 and 0.33 (each group names the files under `vllm/`), of argparse,
PyTorch and huggingface_hub. vLLM wraps a cause several times ("Engine core initialization
failed", "WorkerProc initialization failed"): a wrapper is never the cause, the table has none.
What follows from a reason stands in `advisor.terms.reasons`.
"""

from dataclasses import dataclass

from advisor.terms.reasons import Reason

_OOM = r"(?:OutOfMemoryError|CUDA out of memory|HIP out of memory|out of memory\. Tried)"


@dataclass(frozen=True, slots=True)
class Row:
    """One known text.

    Groups `needed` and `available`, where it has them, give the shortfall; `total` is what the
    device has, `fits` the longest context that would have fitted, in tokens.
    """

    reason: Reason
    stage: str
    pattern: str
    #: only in the log of a server that had been ready
    under_load: bool = False


def _needs(text: str) -> str:
    """`{N}`, `{A}`, `{T}` -> groups for the amount needed, the amount free, and the total."""
    for mark, group in (("{N}", "needed"), ("{A}", "available"), ("{T}", "total")):
        text = text.replace(mark, rf"(?P<{group}>-?[\d.]+)")
    return text


#: Order matters: from the most telling text to the most general one.
TABLE: tuple[Row, ...] = (
    # --- a server that was serving
    Row(Reason.OOM_UNDER_LOAD, "load", _OOM, under_load=True),
    Row(Reason.CRASHED_UNDER_LOAD, "load", r"EngineCore encountered a fatal error", True),
    Row(Reason.CRASHED_UNDER_LOAD, "load", r"EngineDeadError", under_load=True),
    # --- argparse, before anything else runs
    Row(Reason.INVALID_SETTING, "config", r"error: unrecognized arguments: .*"),
    Row(Reason.INVALID_SETTING, "config", r"error: argument \S+: .*"),
    Row(Reason.INVALID_SETTING, "config", r"error: the following arguments are required: .*"),
    # --- config/scheduler.py, config/model.py, config/cache.py, config/vllm.py
    Row(Reason.UNSUPPORTED, "config", r".*is not supported for quantization method.*"),
    Row(Reason.UNSUPPORTED, "config", r".*quantization is currently not supported in.*"),
    Row(Reason.UNSUPPORTED, "config", r"The quantization method \S+ is not supported for.*"),
    Row(Reason.UNSUPPORTED, "config", r"Unknown quantization method:.*"),
    Row(Reason.UNSUPPORTED, "config", r"Quantization method specified in the model config.*"),
    Row(Reason.UNSUPPORTED, "config", r"Cannot find the config file for.*"),
    Row(Reason.UNSUPPORTED, "config", r"Async scheduling is not supported.*"),
    Row(Reason.INVALID_SETTING, "config", r"max_num_batched_tokens \(\d+\) is smaller than.*"),
    Row(
        Reason.INVALID_SETTING,
        "config",
        _needs(
            r"max_num_batched_tokens \({A}\) must be greater than or equal to "
            r"max_num_seqs \({N}\).*"
        ),
    ),
    Row(Reason.INVALID_SETTING, "config", r"max_num_active_seqs \(.*\) cannot be greater.*"),
    Row(Reason.INVALID_SETTING, "config", r"long_prefill_token_threshold \(.*\) cannot be.*"),
    Row(
        Reason.INVALID_SETTING,
        "config",
        _needs(
            r"User-specified max_model_len \({N}\) is greater than the derived max_model_len "
            r"\((?:max_position_embeddings=)?{A}.*"
        ),
    ),
    Row(Reason.INVALID_SETTING, "config", r"User-specified max_model_len .* is greater than.*"),
    Row(Reason.INVALID_SETTING, "config", r"Invalid kv_cache_dtype:.*"),
    Row(Reason.INVALID_SETTING, "config", r"kv_cache_dtype=\S+ is incompatible with dtype=.*"),
    Row(Reason.INVALID_SETTING, "config", r"VllmConfig does not have enough slots to schedule.*"),
    Row(Reason.INVALID_SETTING, "config", r"max_num_scheduled_tokens is set to .* based on.*"),
    # --- the model's files: transformers_utils/, model_executor/model_loader/, huggingface_hub
    Row(Reason.MODEL_UNAVAILABLE, "load", r".*Invalid repository ID or local directory.*"),
    Row(
        Reason.MODEL_UNAVAILABLE, "load", r".*(?:RepositoryNotFound|GatedRepo|HFValidation)Error.*"
    ),
    Row(Reason.MODEL_UNAVAILABLE, "load", r".*is not a local folder and is not a valid model.*"),
    Row(Reason.MODEL_UNAVAILABLE, "load", r".*(?:LocalEntryNotFound|OfflineModeIsEnabled).*"),
    Row(Reason.MODEL_UNAVAILABLE, "load", r"Cannot find any model weights with.*"),
    Row(Reason.MODEL_UNAVAILABLE, "load", r".*gated repo.*"),
    Row(Reason.MODEL_UNAVAILABLE, "load", r".*(?:No space left on device).*"),
    # --- the port
    Row(Reason.PORT_TAKEN, "ready", r".*[Aa]ddress already in use.*"),
    # --- memory: v1/worker/utils.py, gpu_worker.py, cpu_worker.py, gpu_model_runner.py
    Row(
        Reason.MEMORY_TAKEN,
        "load",
        _needs(
            r"(?:Free|Available) memory on (?:device|node).*? \({A}/{T} GiB\) on startup is less "
            r"than desired .*?\([\d.]+, {N} GiB\).*"
        ),
    ),
    Row(Reason.MEMORY_TAKEN, "profiling", r"Error in memory profiling\. Initial free memory.*"),
    Row(Reason.OOM_SAMPLER, "sampler", r".*out of memory occurred when warming up sampler.*"),
    Row(Reason.OOM_LOAD, "load", r"Failed to load model - not enough GPU memory.*"),
    Row(Reason.OOM_GRAPH_CAPTURE, "graph_capture", r"capture_model[\s\S]{0,9000}?" + _OOM + ".*"),
    Row(
        Reason.OOM_PROFILING,
        "profiling",
        r"(?:determine_available_memory|profile_run)[\s\S]{0,9000}?" + _OOM + ".*",
    ),
    Row(Reason.OOM_LOAD, "load", r".*" + _OOM + ".*"),
    # --- KV cache: v1/core/kv_cache_planning.py (kv_cache_utils.py before), cpu_worker.py
    Row(Reason.KV_CACHE_TOO_SMALL, "kv_cache", r"No available memory for the cache blocks.*"),
    Row(
        Reason.KV_CACHE_TOO_SMALL,
        "kv_cache",
        _needs(
            r"To serve at least one request with the model's max seq len \(\d+\), "
            r"\(?{N} GiB KV cache is needed, which is larger than the available KV cache memory "
            r"\({A} GiB\)(?:.*estimated maximum model length is (?P<fits>\d+))?.*"
        ),
    ),
    Row(
        Reason.KV_CACHE_TOO_SMALL,
        "kv_cache",
        _needs(
            r"Available memory on node .* on kv cache allocation is less than requested memory "
            r"for kv \({A}/{N} GiB\).*"
        ),
    ),
    Row(
        Reason.KV_CACHE_TOO_SMALL,
        "kv_cache",
        _needs(r"The worker already uses {N} GiB .*more than the {A} GiB.*"),
    ),
    # --- the device
    Row(Reason.DRIVER_FAULT, "load", r".*CUDA driver version is insufficient.*"),
    Row(Reason.DRIVER_FAULT, "load", r".*No CUDA GPUs are available.*"),
    Row(
        Reason.DRIVER_FAULT,
        "load",
        r".*(?:Failed to infer device type|Unexpected error from cuda).*",
    ),
    Row(
        Reason.DRIVER_FAULT,
        "load",
        r".*CUDA error: (?:uncorrectable|unspecified|unknown|all CUDA).*",
    ),
    # --- what this build or this device cannot do
    Row(Reason.UNSUPPORTED, "load", r"FP8 KV cache on CPU requires.*"),
    Row(Reason.UNSUPPORTED, "load", r"\S*_C::\w+\(\) expected at most.*"),
    Row(Reason.UNSUPPORTED, "load", r"NotImplementedError.*"),
    Row(
        Reason.UNSUPPORTED,
        "load",
        r"(?:ValueError|RuntimeError|AssertionError): .*"
        r"(?:not supported|unsupported|does not support|not implemented).*",
    ),
    # --- any other refusal of the configuration: pydantic's report, one line below its heading
    Row(Reason.INVALID_SETTING, "config", r"validation errors? for \w+\n(?:\S.*\n)?.*"),
    # --- the engine's own processes did not come up in time: v1/engine/core_client.py
    Row(Reason.START_TOO_SLOW, "ready", r"Timed out waiting for engine core processes to.*"),
)
