"""Defaults as vLLM resolves them, and every refusal with its reason."""

import pytest

from advisor.sim import EngineConfig, hardware, resolve
from advisor.terms.errors import InputError, LaunchFailed
from advisor.terms.flags import FlagValue
from advisor.terms.outcome import Failure, Reason
from advisor.terms.setting import Setting
from tests.unit.sim.loads import engine


def plain(device: str, model: str = "llama-3.1-8b", **flags: FlagValue) -> EngineConfig:
    return resolve(Setting.of(model, flags), hardware(device))


def refused(flags: dict[str, FlagValue], device: str, model: str = "llama-3.1-8b") -> Failure:
    with pytest.raises(LaunchFailed) as caught:
        resolve(Setting.of(model, flags), hardware(device))
    return caught.value.failure


def refusal(device: str = "h100-sxm", model: str = "llama-3.1-8b", **flags: FlagValue) -> Failure:
    return refused(flags, device, model)


@pytest.mark.parametrize(
    ("device", "batched", "seqs"),
    [
        ("h100-sxm", 8192, 1024),
        ("h200", 8192, 1024),
        ("a100-80gb-sxm", 2048, 256),
        ("l40s", 2048, 256),
        ("cpu-ddr5", 2048, 128),
    ],
)
def test_batch_defaults_follow_the_device(device: str, batched: int, seqs: int) -> None:
    config = plain(device, max_model_len=4096)
    assert (config.max_num_batched_tokens, config.max_num_seqs) == (batched, seqs)


def test_other_defaults_are_vllms() -> None:
    assert plain("h100-sxm").resolved_flags() == {
        "async_scheduling": True,
        "block_size": 16,
        "dtype": "bfloat16",
        "enable_chunked_prefill": True,
        "enable_prefix_caching": True,
        "enforce_eager": False,
        "gpu_memory_utilization": 0.92,
        "kv_cache_dtype": "auto",
        "long_prefill_token_threshold": 0,
        "max_model_len": 131072,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "tensor_parallel_size": 1,
    }


def test_unset_sequences_follow_a_small_budget() -> None:
    assert engine(max_num_batched_tokens=128).max_num_seqs == 128


def test_unset_budget_is_capped_by_what_the_sequences_can_use_and_raised_without_chunks() -> None:
    assert engine(max_num_seqs=1, max_model_len=500).max_num_batched_tokens == 500
    config = engine("a100-80gb-sxm", max_model_len=5000, enable_chunked_prefill=False)
    assert config.max_num_batched_tokens == 5000


def test_pool_of_a_recorded_start_is_met_within_a_few_per_cent() -> None:
    # vLLM 0.19.0 on an RTX 4090 at 0.9: 41,408 tokens; it did not subtract CUDA graphs yet.
    eager = plain("rtx-4090", max_model_len=32768, gpu_memory_utilization=0.9, enforce_eager=True)
    assert eager.kv_cache_tokens == pytest.approx(41_408, rel=0.03)


def test_fp8_kv_cache_doubles_the_tokens_in_the_pool() -> None:
    ratio = engine(kv_cache_dtype="fp8").kv_cache_tokens / engine().kv_cache_tokens
    assert ratio == pytest.approx(2, rel=0.001)


def test_fp8_without_fp8_units_is_weight_only() -> None:
    a100 = engine("a100-80gb-sxm", quantization="fp8")
    assert a100.precision.linear_bytes == 1
    assert a100.precision.flops == a100.hardware.flops_16bit
    h100 = engine("h100-sxm", quantization="fp8")
    assert h100.precision.flops == h100.hardware.flops_fp8
    assert h100.resolved_flags()["quantization"] == "fp8"


def test_quantised_checkpoint_needs_no_flag() -> None:
    assert engine(model="llama-3.1-8b-awq").resolved_flags()["quantization"] == "awq"


def test_float32_doubles_the_bytes() -> None:
    config = engine("a100-80gb-sxm", dtype="float32")
    assert config.memory.weight_bytes == 2 * engine("a100-80gb-sxm").memory.weight_bytes
    assert config.kv_bytes_per_token == 2 * 131_072
    assert config.resolved_flags()["dtype"] == "float32"


def test_tensor_parallel_splits_weights_and_kv() -> None:
    config = engine(model="llama-3.1-70b", tensor_parallel_size=4)
    assert config.memory.weight_bytes == pytest.approx(141.1e9 / 4, rel=0.01)
    assert config.kv_bytes_per_token == 2 * 80 * 8 * 128 * 2 // 4


def test_flags_without_effect_are_accepted() -> None:
    engine(port=8000, trust_remote_code=True, async_scheduling=True, disable_log_stats=False)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            {"max_num_batched_tokens": 64, "max_num_seqs": 128},
            "max_num_batched_tokens (64) must be greater than or equal to max_num_seqs (128).",
        ),
        (
            {
                "max_num_batched_tokens": 512,
                "max_model_len": 4096,
                "enable_chunked_prefill": False,
            },
            "max_num_batched_tokens (512) is smaller than max_model_len (4096)",
        ),
        ({"gpu_memory_utilization": 1.5}, "--gpu-memory-utilization 1.5: must be in (0, 1]"),
        ({"gpu_memory_utilization": 0}, "--gpu-memory-utilization 0: must be in (0, 1]"),
        ({"gpu_memory_utilization": "big"}, "--gpu-memory-utilization 'big': expected a number"),
        ({"max_num_seqs": 0}, "--max-num-seqs 0: expected an integer >= 1"),
        ({"max_num_seqs": True}, "--max-num-seqs without a value: expected an integer >= 1"),
        ({"enable_prefix_caching": 1}, "--enable-prefix-caching 1: takes no value"),
        ({"quantization": 8}, "--quantization 8: expected a name"),
        ({"kv_cache_dtype": "fp4"}, "Invalid kv_cache_dtype: fp4"),
        ({"dtype": "int3"}, "--dtype int3: one of auto"),
        ({"block_size": 24}, "--block-size 24: must be a multiple of 16"),
        (
            {"max_model_len": 200_000},
            "User-specified max_model_len (200000) is greater than the derived max_model_len",
        ),
        (
            {"max_model_len": 100, "long_prefill_token_threshold": 200},
            "long_prefill_token_threshold (200) cannot be greater than the max_model_len (100)",
        ),
        ({"tensor_parallel_size": 3}, "attention heads (32) must be divisible by tensor"),
        ({"speculative_config": "{}"}, "the simulator does not model --speculative-config"),
        ({"scheduling_policy": "priority"}, "models --scheduling-policy at fcfs only"),
    ],
)
def test_settings_that_make_no_sense(flags: dict[str, FlagValue], text: str) -> None:
    failure = refused(flags, "h100-sxm")
    assert (failure.reason, failure.stage) == (Reason.INVALID_SETTING, "config")
    assert text in failure.message


def test_limits_that_contradict_each_other_tell_by_how_much() -> None:
    assert refusal(max_num_batched_tokens=64, max_num_seqs=96).shortfall == 0.5
    assert refusal(max_model_len=131072 * 2).shortfall == 1


def test_tensor_parallel_on_a_cpu_is_not_modelled() -> None:
    failure = refusal("cpu-ddr5", max_model_len=4096, tensor_parallel_size=2)
    assert "--tensor-parallel-size 2: 1 is modelled on cpu-ddr5" in failure.message


@pytest.mark.parametrize(
    ("model", "method", "text"),
    [
        ("llama-3.1-8b", "fp9", "Unknown quantization method: fp9"),
        ("llama-3.1-8b", "awq", "Cannot find the config file for awq"),
        ("llama-3.1-8b-awq", "gptq", "does not match the quantization method specified"),
    ],
)
def test_method_must_be_known_and_match_the_checkpoint(model: str, method: str, text: str) -> None:
    failure = refusal(model=model, quantization=method)
    assert failure.reason is Reason.UNSUPPORTED
    assert text in failure.message


@pytest.mark.parametrize("flags", [{"quantization": "fp8"}, {"kv_cache_dtype": "fp8"}])
def test_fp8_on_a_cpu_is_unsupported(flags: dict[str, FlagValue]) -> None:
    failure = refused({"max_model_len": 4096, **flags}, "cpu-ddr5")
    assert failure.reason is Reason.UNSUPPORTED


def test_weights_beyond_memory() -> None:
    failure = refusal(model="llama-3.1-70b")
    assert (failure.reason, failure.stage) == (Reason.OOM_LOAD, "load")
    assert failure.shortfall == pytest.approx(0.67, abs=0.02)


def test_profiling_peak_beyond_memory() -> None:
    failure = refusal("rtx-4090", max_model_len=4096, max_num_batched_tokens=131072)
    assert (failure.reason, failure.stage) == (Reason.OOM_PROFILING, "profiling")
    assert failure.shortfall is not None
    assert 0 < failure.shortfall < 1


def test_no_room_for_blocks_and_for_the_longest_request() -> None:
    none = refusal("rtx-4090", max_model_len=4096, gpu_memory_utilization=0.6)
    short = refusal("rtx-4090")
    for failure in (none, short):
        assert (failure.reason, failure.stage) == (Reason.KV_CACHE_TOO_SMALL, "kv_cache")
    assert "No available memory for the cache blocks" in none.message
    assert "estimated maximum model length is 40096" in short.message
    assert none.shortfall is not None
    assert short.shortfall is not None
    assert none.shortfall > short.shortfall > 0


def test_the_length_that_would_fit_does_fit() -> None:
    length = int(refusal("rtx-4090").message.rstrip(".").rpartition(" ")[2])
    assert plain("rtx-4090", max_model_len=length).kv_cache_tokens == length


def test_nothing_left_for_the_driver() -> None:
    failure = refusal(gpu_memory_utilization=0.99)
    assert (failure.reason, failure.stage) == (Reason.OOM_GRAPH_CAPTURE, "graph_capture")
    # Without graphs nothing is captured.
    assert (
        plain("h100-sxm", gpu_memory_utilization=0.99, enforce_eager=True).memory.graph_bytes == 0
    )


def test_unknown_hardware_names_the_known() -> None:
    with pytest.raises(InputError, match=r"hardware 'h900': unknown; one of cpu-ddr5, .*h200"):
        hardware("h900")
