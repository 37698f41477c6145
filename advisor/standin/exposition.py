"""`/metrics` and `/server_info`: the engine's state under vLLM's names."""

from typing import Any

from advisor.sim import EngineConfig
from advisor.standin.live import LiveEngine
from advisor.terms.flags import FlagValue


def metrics_text(engine: LiveEngine, name: str, prefix_hits: int) -> str:
    """Prometheus text with the names of vLLM 0.33.0; what the stand-in has not is absent.

    `prefix_hits` are tokens.
    """
    scheduler, pool = engine.scheduler, engine.scheduler.pool
    label = f'model_name="{name}",engine="0"'
    gauges: dict[str, float] = {
        "num_requests_running": len(scheduler.running),
        "num_requests_waiting": len(scheduler.waiting),
        "kv_cache_usage_perc": 1 - pool.num_free / pool.num_usable,
    }
    counters = {
        "prefix_cache_queries": scheduler.prefix_queries,
        "prefix_cache_hits": prefix_hits,
        "num_preemptions": scheduler.preemptions,
        "prompt_tokens": engine.prompt_tokens,
        "generation_tokens": engine.generation_tokens,
    }
    lines: list[str] = []
    for metric, value in gauges.items():
        lines += [f"# TYPE vllm:{metric} gauge", f"vllm:{metric}{{{label}}} {value}"]
    for metric, count in counters.items():
        lines += [f"# TYPE vllm:{metric} counter", f"vllm:{metric}_total{{{label}}} {count}"]
    lines += [
        "# TYPE vllm:request_success counter",
        f'vllm:request_success_total{{finished_reason="length",{label}}} {engine.finished}',
        "# TYPE vllm:cache_config_info gauge",
        f"vllm:cache_config_info{{{_cache_labels(engine.config)}}} 1",
    ]
    return "\n".join(lines) + "\n"


def server_info(config: EngineConfig) -> dict[str, Any]:
    """The resolved configuration, in the sections of vLLM's `VllmConfig`."""
    flags = config.resolved_flags()

    def section(*names: str) -> dict[str, FlagValue]:
        return {name: flags[name] for name in names if name in flags}

    return {
        "stand_in": True,
        "vllm_config": {
            "scheduler_config": section(
                "max_num_batched_tokens",
                "max_num_seqs",
                "enable_chunked_prefill",
                "long_prefill_token_threshold",
            ),
            "cache_config": _cache_config(config),
            "model_config": section("max_model_len", "dtype", "quantization", "enforce_eager"),
            "parallel_config": section("tensor_parallel_size"),
        },
    }


def _cache_config(config: EngineConfig) -> dict[str, FlagValue]:
    return {
        "block_size": config.block_size,
        "cache_dtype": config.kv_cache_dtype,
        "enable_prefix_caching": config.enable_prefix_caching,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "kv_cache_size_tokens": config.kv_cache_tokens,
        "num_gpu_blocks": config.memory.num_blocks,
    }


def _cache_labels(config: EngineConfig) -> str:
    return ",".join(f'{name}="{value}"' for name, value in _cache_config(config).items())
