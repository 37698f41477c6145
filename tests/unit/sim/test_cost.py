"""The terms of a step's duration, one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sim.cost import CostModel, no_noise, padded
from advisor.sim.memory import capture_sizes
from advisor.sim.steps import Batch
from tests.unit.sim.loads import at_once, engine, gaps_ms, play


def batch(tokens: int, context_tokens: int = 0, prefill_pairs: int = 0) -> Batch:
    return Batch([], [], [], tokens, context_tokens, prefill_pairs)


def exact(cost: CostModel) -> CostModel:
    return replace(cost, factors=no_noise())


@given(st.integers(1, 600), st.integers(1, 300))
def test_batches_are_padded_to_the_next_captured_size(tokens: int, seqs: int) -> None:
    sizes = capture_sizes(seqs)
    fitting = [size for size in sizes if size >= tokens]
    assert padded(tokens, sizes[-1]) == (fitting[0] if fitting else tokens)


def test_beyond_the_largest_graph_kernels_are_launched_one_by_one() -> None:
    cost = exact(CostModel.of(engine(max_num_seqs=64)))
    assert cost.largest_graph == 128
    inside, beyond = (cost.step_ns(batch(tokens), 0) for tokens in (128, 129))
    assert beyond - inside == pytest.approx(32 * 32_000, abs=20_000)
    eager = exact(CostModel.of(engine(max_num_seqs=64, enforce_eager=True)))
    assert eager.step_ns(batch(8), 0) - cost.step_ns(batch(8), 0) == 32 * 32_000


def test_attention_reads_all_contexts_and_prefill_multiplies_pairs() -> None:
    cost = exact(CostModel.of(engine()))
    plain = cost.step_ns(batch(64), 0)
    # 100,000 tokens of 131,072 bytes at three quarters of 3,350 GB/s.
    longer = cost.step_ns(batch(64, context_tokens=100_000), 0)
    assert longer - plain == pytest.approx(1e5 * 131_072 / (3350e9 * 0.75) * 1e9, rel=0.001)
    assert cost.step_ns(batch(64, prefill_pairs=10**8), 0) > plain


def test_a_mixture_reads_more_experts_as_tokens_come_and_computes_with_few() -> None:
    cost = exact(CostModel.of(engine("h200", model="mixtral-8x7b")))
    reads = cost.weights_fs
    assert list(reads) == sorted(reads)
    # One token of Mixtral reads 2 of 8 experts: 12.9 of 46.7 billion weights.
    assert reads[1] / reads[-1] == pytest.approx(12.8 / 46.6, rel=0.02)
    dense = exact(CostModel.of(engine("h200")))
    assert cost.token_fs / dense.token_fs == pytest.approx(12.6 / 6.98, rel=0.02)


def test_host_time_is_hidden_with_asynchronous_scheduling_only() -> None:
    config = engine("cpu-ddr5", max_model_len=2048)
    cost = exact(CostModel.of(config))
    assert cost.depth == 1
    assert cost.cycle_ns(5_000_000, 10) == 5_000_000 + 1_000_000 + 10 * 470_000
    hidden = replace(cost, depth=2)
    assert hidden.cycle_ns(50_000_000, 10) == 50_000_000
    assert hidden.cycle_ns(1_000_000, 10) == 1_000_000 + 10 * 470_000


def test_noise_is_drawn_per_launch_and_leaves_the_mean() -> None:
    one, same, other = (CostModel.of(engine(), seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.factors, same.factors)
    assert not np.array_equal(one.factors, other.factors)
    spread = np.log(one.factors / 1e6)
    assert spread.std() == pytest.approx(0.02, rel=0.1)
    assert abs(spread.mean()) < 0.05


def test_a_stream_is_not_perfectly_even() -> None:
    gaps = gaps_ms(play(at_once(1, 100, 300), engine(max_model_len=2048)))
    assert 1.03 < np.percentile(gaps, 99) / np.median(gaps) < 1.15


def test_an_all_reduce_costs_traffic_of_every_token() -> None:
    cost = exact(CostModel.of(engine(tensor_parallel_size=2)))
    # Two a layer, each (2 - 1) / 2 of a vector of 4096 x 2 bytes sent twice over 450 GB/s.
    assert cost.reduce_fs == pytest.approx(2 * 32 * 8192 / 450e9 * 1e15, rel=0.001)
