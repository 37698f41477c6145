"""What any serving engine on this hardware must show, whatever its constants."""

import numpy as np
import pytest

from advisor.sim import hardware, model
from advisor.sim.cost import decode_ceiling
from tests.unit.sim.loads import at_once, engine, gaps_ms, play, poisson, ttft_ms


@pytest.mark.parametrize(
    ("device", "tokens_per_s"),
    [
        ("cpu-ddr5", 6),
        ("a10g", 38),
        ("l40s", 54),
        ("rtx-4090", 63),
        ("a100-80gb-sxm", 127),
        ("h100-sxm", 209),
    ],
)
def test_decode_ceiling_is_bandwidth_over_weight_bytes(device: str, tokens_per_s: int) -> None:
    # 37.5 and 127.4 are the halves that rounding decides.
    assert decode_ceiling(hardware(device), 16e9) == pytest.approx(tokens_per_s, abs=0.51)


def test_kv_of_8000_tokens_of_the_common_8b_shape_is_about_1_gb() -> None:
    shape = model("llama-3.1-8b")
    assert shape.kv_bytes_per_token() == 131_072
    assert 8000 * shape.kv_bytes_per_token() == pytest.approx(1.05e9, rel=0.01)
    assert shape.parameters == pytest.approx(8.03e9, rel=0.001)


@pytest.mark.parametrize("device", ["a10g", "rtx-4090", "h100-sxm"])
def test_single_stream_stays_below_its_ceiling_and_near_it(device: str) -> None:
    config = engine(device, max_model_len=2048)
    rate = 1e3 / gaps_ms(play(at_once(1, 100, 400), config)).mean()
    ceiling = decode_ceiling(config.hardware, config.model.step_weight_bytes())
    assert 0.7 * ceiling < rate < ceiling


@pytest.mark.parametrize("device", ["a10g", "h100-sxm"])
def test_longer_prompt_multiplies_ttft_and_hardly_moves_the_stream(device: str) -> None:
    config = engine(device, max_model_len=4096)
    short = play(at_once(1, 200, 200), config)
    long = play(at_once(1, 2000, 200), config)
    assert ttft_ms(long)[0] > 2 * ttft_ms(short)[0]
    assert gaps_ms(long).mean() == pytest.approx(gaps_ms(short).mean(), rel=0.05)


@pytest.mark.parametrize("device", ["a10g", "a100-80gb-sxm", "h100-sxm"])
@pytest.mark.parametrize("method", ["fp8", "int8_per_channel_weight_only"])
def test_8_bit_weights_about_double_the_single_stream_rate(device: str, method: str) -> None:
    plain = gaps_ms(play(at_once(1, 100, 200), engine(device, max_model_len=2048)))
    config = engine(device, max_model_len=2048, quantization=method)
    assert 1.5 < plain.mean() / gaps_ms(play(at_once(1, 100, 200), config)).mean() < 2.1


def test_throughput_grows_nearly_linearly_until_the_pool_is_full() -> None:
    config = engine("rtx-4090", max_model_len=4096)
    rates = {}
    for count in (1, 4, 16, 64, 256):
        run = play(at_once(count, 128, 512), config)
        rates[count] = run.traces.event_tokens.sum() / run.timeline.step_end_ns[-1] * 1e9
    assert rates[4] > 3.4 * rates[1]
    assert rates[16] > 12 * rates[1]
    # 36,000 tokens of pool hold about 56 of these requests at their end.
    assert rates[256] < 1.4 * rates[64]


def test_full_pool_shows_as_waiting_requests_at_kv_use_near_1() -> None:
    run = play(poisson(6, 150, 2000, 600), engine("rtx-4090", max_model_len=4096))
    full = run.timeline.waiting > 0
    assert run.facts.waiting_max is not None
    assert run.facts.waiting_max > 50
    assert np.median(run.timeline.kv_cache_usage[full]) > 0.95


def test_smaller_budget_lowers_itl_p99_and_raises_ttft() -> None:
    load = poisson(4, 200, 4000, 150)
    small = play(load, engine(max_num_batched_tokens=512, max_num_seqs=256))
    large = play(load, engine(max_num_batched_tokens=8192, max_num_seqs=256))
    assert np.percentile(gaps_ms(small), 99) < 0.5 * np.percentile(gaps_ms(large), 99)
    assert np.median(ttft_ms(small)) > np.median(ttft_ms(large))


def test_larger_budget_shrinks_the_pool() -> None:
    pools = [
        engine("rtx-4090", max_num_batched_tokens=each).kv_cache_tokens for each in (2048, 8192)
    ]
    # One reported start: 40,464 to 36,720 tokens (vLLM issue 48322).
    assert 0.85 < pools[1] / pools[0] < 0.95


def test_larger_utilisation_grows_the_pool_by_its_share_of_memory() -> None:
    low, high = (engine(gpu_memory_utilization=each) for each in (0.8, 0.9))
    more = (high.kv_cache_tokens - low.kv_cache_tokens) * low.kv_bytes_per_token
    assert more == pytest.approx(0.1 * low.hardware.memory_bytes, rel=0.01)


def test_four_bit_weights_win_alone_and_lose_in_a_crowd() -> None:
    plain, awq = engine("a100-80gb-sxm"), engine("a100-80gb-sxm", model="llama-3.1-8b-awq")
    alone = at_once(1, 100, 100)
    crowd = at_once(250, 1500, 4)
    assert gaps_ms(play(alone, awq)).mean() < 0.5 * gaps_ms(play(alone, plain)).mean()
    assert ttft_ms(play(crowd, awq)).mean() > 1.1 * ttft_ms(play(crowd, plain)).mean()


def test_tensor_parallel_streams_faster_though_not_by_its_size() -> None:
    one, four = (
        gaps_ms(play(at_once(1, 100, 100), engine(tensor_parallel_size=size))).mean()
        for size in (1, 4)
    )
    assert 1.3 < one / four < 4


def test_eager_mode_is_slower_and_leaves_more_memory() -> None:
    graphs, eager = engine(enforce_eager=False), engine(enforce_eager=True)
    load = at_once(1, 100, 100)
    assert gaps_ms(play(load, eager)).mean() > gaps_ms(play(load, graphs)).mean()
    assert eager.kv_cache_tokens > graphs.kv_cache_tokens
