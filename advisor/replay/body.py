"""Request bodies, encoded once, before any clock runs."""

import json
from collections.abc import Sequence

from advisor.replay.prompts import DEFAULT_FLOOR, prompt_encoder
from advisor.replay.text import PROBE_WORDS, TextScale, text_encoder, words
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
    """One JSON body for `/v1/completions` per request, in order.

    The output length is forced from both sides (`max_tokens`, `min_tokens`, `ignore_eos`), and
    each chunk is asked to say how many tokens it carries, in both ways that vLLM knows
    (`return_token_ids`, `continuous_usage_stats`; vLLM 0.33.0
    `vllm/entrypoints/openai/completion/protocol.py`). Greedy sampling is pinned, so that a
    model's `generation_config.json` cannot change the work. Raises as `prompt_encoder` does.
    """
    encode = prompt_encoder(block_tokens=block_tokens, vocab_size=vocab_size, floor=floor)
    heads = [_fields(model, request.output_length) for request in requests]
    return [
        b"".join((head[:-1], b',"prompt":[', encode(request), b"]}"))
        for head, request in zip(heads, requests, strict=True)
    ]


def encode_chats(
    requests: Sequence[PlannedRequest], model: str, *, block_tokens: int, scale: TextScale
) -> list[bytes]:
    """One JSON body for `/v1/chat/completions` per request: one message of the user's."""
    encode = text_encoder(block_tokens=block_tokens, scale=scale)
    return [_chat(model, request.output_length, encode(request)) for request in requests]


def encode_probes(model: str, seed: int) -> list[bytes]:
    """Two chats of known length that ask for one token each."""
    return [_chat(model, 1, " ".join(words(seed, count))) for count in PROBE_WORDS]


def _chat(model: str, output_length: int, text: str) -> bytes:
    messages = json.dumps([{"role": "user", "content": text}]).encode()
    return b"".join((_fields(model, output_length)[:-1], b',"messages":', messages, b"}"))


def _fields(model: str, output_length: int) -> bytes:
    fields = {
        "model": model,
        "max_tokens": output_length,
        "min_tokens": output_length,
        "ignore_eos": True,
        "temperature": 0,
        "seed": _SEED,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }
    return json.dumps(fields, separators=(",", ":")).encode()
