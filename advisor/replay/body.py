"""Request bodies for `/v1/completions`, encoded once, before any clock runs."""

import json
from collections.abc import Sequence

from advisor.replay.prompts import DEFAULT_FLOOR, prompt_encoder
from advisor.terms.profile import PlannedRequest

#: Any fixed value: with temperature 0 it decides nothing, and no server draws its own.
_SEED = 0


def encode_bodies(
    requests: Sequence[PlannedRequest],
    model: str,
    *,
    block_tokens: int,
    vocab_size: int,
    floor: int = DEFAULT_FLOOR,
) -> list[bytes]:
    """One JSON body per request, in order.

    The output length is forced from both sides (`max_tokens`, `min_tokens`, `ignore_eos`), and
    each chunk is asked to say how many tokens it carries, in both ways that vLLM knows
    (`return_token_ids`, `continuous_usage_stats`; vLLM 0.33.0
    `vllm/entrypoints/openai/completion/protocol.py`). Greedy sampling is pinned, so that a
    model's `generation_config.json` cannot change the work. Raises as `prompt_encoder` does.
    """
    encode = prompt_encoder(block_tokens=block_tokens, vocab_size=vocab_size, floor=floor)
    return [_body(request, model, encode(request)) for request in requests]


def _body(request: PlannedRequest, model: str, prompt: bytes) -> bytes:
    fields = {
        "model": model,
        "max_tokens": request.output_length,
        "min_tokens": request.output_length,
        "ignore_eos": True,
        "temperature": 0,
        "seed": _SEED,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }
    head = json.dumps(fields, separators=(",", ":")).encode()
    return b"".join((head[:-1], b',"prompt":[', prompt, b"]}"))
