"""Prompts as lists of token ids: exact in length, and equal exactly where block ids are equal.

Sending ids instead of text leaves no tokenizer in the path, so neither the prompt's length nor
the edges of its blocks can drift between the plan and the server.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.terms.errors import InputError, ReplayError
from advisor.terms.profile import PlannedRequest

#: Special tokens (BOS, EOS, padding, …) have the lowest ids in SentencePiece vocabularies.
DEFAULT_FLOOR = 100

#: Blocks kept while a replay is prepared; shared ones recur soon or all the time.
_CACHED_BLOCKS = 4096


def block_of_tokens(
    block_id: int, *, block_tokens: int, vocab_size: int, floor: int = DEFAULT_FLOOR
) -> NDArray[np.uint64]:
    """The token ids of one block: `block_tokens` values in [floor, vocab_size).

    A function of its arguments alone, in every process: PCG64's raw stream is part of NumPy's
    compatibility promise (NEP 19), the distributions built on it are not. The bias of a modulo
    over 64 bits is below 1e-14.
    """
    raw = np.random.PCG64(block_id).random_raw(block_tokens)
    return raw % np.uint64(vocab_size - floor) + np.uint64(floor)


def prompt_encoder(
    *, block_tokens: int, vocab_size: int, floor: int = DEFAULT_FLOOR
) -> Callable[[PlannedRequest], bytes]:
    """A function from a request to its prompt's ids as JSON text without the brackets.

    `vocab_size` is exclusive; where special tokens sit at the vocabulary's end, give the size
    without them (128,000 for Llama 3). Raises InputError when the range holds no choice of ids.
    The function raises ReplayError when a request's block ids do not fit its length.
    """
    if block_tokens < 1:
        raise InputError(f"block_tokens: {block_tokens} must be at least 1")
    if not 0 <= floor < vocab_size - 1:
        raise InputError(
            f"vocab_size: {vocab_size} leaves no choice of tokens; at least {max(floor, 0) + 2}"
            f" with the floor at {floor}"
        )

    def words_of(block_id: int, length: int) -> bytes:
        tokens = block_of_tokens(
            block_id, block_tokens=block_tokens, vocab_size=vocab_size, floor=floor
        )
        return ",".join(map(str, tokens[:length].tolist())).encode()

    full_block = lru_cache(maxsize=_CACHED_BLOCKS)(lambda block: words_of(block, block_tokens))

    def encode(request: PlannedRequest) -> bytes:
        _check_fit(request, block_tokens)
        *full, last = request.block_ids
        rest = request.input_length - block_tokens * len(full)
        return b",".join([*(full_block(block) for block in full), words_of(last, rest)])

    return encode


def _check_fit(request: PlannedRequest, block_tokens: int) -> None:
    needed = -(-request.input_length // block_tokens)
    if request.input_length < 1 or len(request.block_ids) != needed:
        raise ReplayError(
            f"a planned request has {len(request.block_ids)} block ids for"
            f" {request.input_length} prompt tokens in blocks of {block_tokens}; expected {needed}"
        )
