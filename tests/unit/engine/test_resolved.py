import pytest

from advisor.engine.metrics import parse
from advisor.engine.resolved import ignored, kv_cache_tokens, read_back
from advisor.terms.flags import FlagValue
from advisor.terms.setting import Setting

#: as vLLM 0.32.0 logs it, shortened
LOG = (
    "non-default args: {'model': 'm', 'max_num_seqs': 64, 'served_model_name': ['a'], "
    "'dtype': 'half'}\n"
    "Initializing a V1 LLM engine with config: model='m', dtype=torch.float16, "
    "tensor_parallel_size=2, kv_cache_dtype=auto, enable_prefix_caching=False\n"
    "Using max model len 2048\n"
    "GPU KV cache size: 1,049,344 tokens, Maximum concurrency for 2,048 tokens: 512.38x\n"
)
METRICS = (
    "# TYPE vllm:cache_config_info gauge\n"
    'vllm:cache_config_info{enable_prefix_caching="True",block_size="128",'
    'num_gpu_blocks_override="None",kv_cache_size_tokens="834048"} 1.0\n'
)


def test_the_fullest_source_wins() -> None:
    info = {"vllm_config": {"cache_config": {"block_size": 32, "kv_cache_size_tokens": 7}}}
    setting = Setting.of("m", {"load_format": "dummy"})
    resolved = dict(read_back(setting, info, parse(METRICS), LOG))
    assert resolved["block_size"] == 32
    assert resolved["enable_prefix_caching"] is True
    assert resolved["max_num_seqs"] == 64
    assert resolved["dtype"] == "float16"
    assert resolved["tensor_parallel_size"] == 2
    assert "load_format" not in resolved
    assert kv_cache_tokens(info, parse(METRICS), LOG) == 7
    assert kv_cache_tokens({}, parse(METRICS), LOG) == 834_048
    assert kv_cache_tokens({}, {}, LOG) == 1_049_344


def test_a_server_that_tells_nothing() -> None:
    assert read_back(Setting.of("m", {"max_num_seqs": 1}), {}, {}, "") == ()
    assert kv_cache_tokens({}, {}, "") is None
    assert read_back(Setting.of("m", {}), {"vllm_config": "text"}, {}, "") == ()


def test_arguments_that_are_no_literals() -> None:
    log = "non-default args: {'kv_transfer_config': KVTransferConfig(kv=None)}\n"
    assert read_back(Setting.of("m", {}), {}, {}, log) == ()


@pytest.mark.parametrize(
    ("asked", "runs", "same"),
    [
        (0.9, 0.9, True),
        (1, 1.0, True),
        (1024, 256, False),
        (True, True, True),
        (True, False, False),
        ("half", "float16", True),
        ("auto", "bfloat16", True),
        ("fp8", "auto", False),
        ("8", 8, True),
        (1, True, False),
    ],
)
def test_asked_against_running(asked: FlagValue, runs: FlagValue, same: bool) -> None:
    setting = Setting.of("m", {"x": asked}, knobs=("x",))
    assert ignored(setting, (("x", runs),)) == (
        () if same else (f"x: asked {asked}, runs {runs}",)
    )
    assert ignored(Setting.of("m", {"x": asked}), (("x", runs),)) == ()
    assert ignored(setting, ()) == ()
