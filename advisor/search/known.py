"""The `vllm serve` flags that change performance, and what values each takes.

Names and bounds as in vLLM 0.32 and 0.33: `vllm/engine/arg_utils.py`, `vllm/config/cache.py`,
`vllm/config/scheduler.py`, `vllm/config/parallel.py`. A mistyped name would cost a launch, so a
Space may use another one only with `any_flag = true`.
"""

from enum import StrEnum

from advisor.terms.flags import FlagValue


class Kind(StrEnum):
    """What a flag takes, worded for a person."""

    COUNT = "a whole number of at least 1"
    NATURAL = "a whole number of at least 0"
    SHARE = "a number above 0 and at most 1"
    FRACTION = "a number of at least 0 and below 1"
    AMOUNT = "a number of at least 0"
    SWITCH = "true or false"
    WORD = "a string"

    def accepts(self, value: FlagValue) -> bool:
        """Whether vLLM takes a value of this type and range."""
        if isinstance(value, str | bool):
            return self is (Kind.WORD if isinstance(value, str) else Kind.SWITCH)
        if self in (Kind.COUNT, Kind.NATURAL):
            return isinstance(value, int) and value >= (self is Kind.COUNT)
        bounds = {
            Kind.SHARE: 0 < value <= 1,
            Kind.FRACTION: 0 <= value < 1,
            Kind.AMOUNT: value >= 0,
        }
        return bounds.get(self, False)


_COUNTS = """
    api_server_count block_size data_parallel_size decode_context_parallel_size dp_sync_interval
    kv_cache_memory_bytes mamba_block_size max_cudagraph_capture_size max_model_len
    max_num_active_seqs max_num_batched_tokens max_num_scheduled_tokens max_num_seqs
    num_gpu_blocks_override pipeline_parallel_size prefill_context_parallel_size
    prefill_schedule_interval renderer_num_workers stream_interval tensor_parallel_size
"""
_NATURALS = """
    dbo_decode_token_threshold dbo_prefill_token_threshold long_prefill_token_threshold
    max_num_queued_reqs max_num_queued_tokens optimization_level ubatch_size
"""
_AMOUNTS = "cpu_offload_gb kv_offloading_size mm_processor_cache_gb"
_SWITCHES = """
    async_scheduling disable_cascade_attn disable_chunked_mm_input disable_custom_all_reduce
    disable_hybrid_kv_cache_manager enable_chunked_prefill enable_dbo enable_eplb
    enable_expert_parallel enable_prefix_caching enforce_eager kv_sharing_fast_prefill
    long_prefill_token_threshold_adaptive numa_bind scheduler_reserve_full_isl
"""
_WORDS = """
    all2all_backend attention_backend attention_config compilation_config
    distributed_executor_backend dtype eplb_config expert_placement_strategy kernel_config
    kv_cache_dtype kv_offloading_backend kv_transfer_config linear_backend mamba_cache_dtype
    mamba_cache_mode mamba_ssm_cache_dtype moe_backend performance_mode prefix_caching_hash_algo
    quantization scheduling_policy speculative_config
"""

KNOWN: dict[str, Kind] = {
    **dict.fromkeys(_COUNTS.split(), Kind.COUNT),
    **dict.fromkeys(_NATURALS.split(), Kind.NATURAL),
    **dict.fromkeys(_AMOUNTS.split(), Kind.AMOUNT),
    **dict.fromkeys(_SWITCHES.split(), Kind.SWITCH),
    **dict.fromkeys(_WORDS.split(), Kind.WORD),
    "gpu_memory_utilization": Kind.SHARE,
    "watermark": Kind.FRACTION,
}
