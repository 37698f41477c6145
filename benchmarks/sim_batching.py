"""What chunked prefill is worth: static, prefill-first and chunked batching, and a split.

    python benchmarks/sim_batching.py

prints one JSON object. Requests of one row are equal in size and all there from the start, on a
simulated A100, some at a time, with chunks of 256 tokens as in the published comparison with
prefill-first batching (SARATHI, arXiv 2308.16369); as they are equal and come at once, prefill
first is the same as static. `gain_pct` is chunked over prefill-first, in tokens a second.
`split_*` compares prefill and decode on two devices with two replicas of the chunked server, and
on two halves of one device with one server, under arrivals in time.
"""

import json
from typing import Any

import numpy as np

from advisor.sim import EngineConfig, hardware, resolve
from advisor.sim.batching import Batching, Variant, play_split, play_variant
from advisor.terms.load import Load
from advisor.terms.setting import Setting

_CHUNK, _TOTAL = 256, 2048
#: requests at a time
_SEQS = (4, 18)
#: prompt tokens for each output token
_RATIOS = (1, 3, 7, 15, 31, 63, 127, 255)
_LINK_BYTES_PER_S = 50e9


def config(batched: int, seqs: int) -> EngineConfig:
    flags = {"max_model_len": 4096, "max_num_seqs": seqs, "max_num_batched_tokens": batched}
    return resolve(Setting.of("llama-3.1-8b", flags), hardware("a100-80gb-sxm"))


def equal(count: int, prompt: int, output: int, rate: float | None = None) -> Load:
    """All at once, or Poisson arrivals at a rate a second."""
    zeros = np.zeros(count + 1, dtype=np.int64)
    at = zeros[:-1]
    if rate is not None:
        at = np.cumsum(np.random.default_rng(5).exponential(1e9 / rate, count)).astype(np.int64)
    full = np.ones(count, dtype=np.int64)
    return Load(at, full * prompt, full * output, at >= 0, zeros, zeros[:0], 0, 512)


def figures(variant: Variant) -> dict[str, float]:
    ttft_ms = (variant.first_ns - variant.planned_ns) / 1e6
    return {
        "tokens_per_s": round(variant.tokens_per_s, 1),
        "ttft_p50_ms": round(float(np.median(ttft_ms)), 1),
        "itl_p50_ms": round(float(np.median(variant.gaps_ns)) / 1e6, 2),
        "itl_p99_ms": round(float(np.percentile(variant.gaps_ns, 99)) / 1e6, 2),
    }


def ratio_row(seqs: int, ratio: int) -> dict[str, Any]:
    output = _TOTAL // (ratio + 1)
    load = equal(4 * seqs, _TOTAL - output, output)
    found = {
        batching: play_variant(
            load, config(_CHUNK if batching is Batching.CHUNKED else 4096, seqs), batching
        )
        for batching in Batching
    }
    gain = found[Batching.CHUNKED].tokens_per_s / found[Batching.PREFILL_FIRST].tokens_per_s - 1
    return {
        "at_a_time": seqs,
        "prompt_per_output": ratio,
        "gain_pct": round(100 * gain, 1),
        **{str(name): figures(variant) for name, variant in found.items()},
    }


def split_row(rate: float) -> dict[str, Any]:
    """A chat of long prompts; for two devices twice the rate, a replica each half of it."""
    server = config(2048, seqs=128)
    one = equal(150, 3000, 150, rate)
    two = equal(300, 3000, 150, 2 * rate)
    return {
        "requests_per_s_device": rate,
        "replicas": figures(play_variant(one, server, Batching.CHUNKED)),
        "split_two_devices": figures(play_split(two, server, _LINK_BYTES_PER_S)),
        "split_one_device": figures(play_split(one, server, _LINK_BYTES_PER_S, share=0.5)),
    }


def main() -> None:
    rows = [ratio_row(seqs, ratio) for seqs in _SEQS for ratio in _RATIOS]
    print(json.dumps({"rows": rows, "split": [split_row(rate) for rate in (0.5, 1.0, 2.0, 3.0)]}))


if __name__ == "__main__":
    main()
