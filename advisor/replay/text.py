"""Prompts as text, for servers that take nothing else: equal where block ids are equal, and as
long as planned within what words allow.

How many tokens a word costs, and how many the chat template adds, only the server knows: it is
asked with two prompts of known length before the load. The rest is drift; it is measured.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from advisor.terms.errors import ReplayError
from advisor.terms.profile import PlannedRequest

#: One token each, with the blank before it, in the byte-pair vocabularies of the common families.
_WORDS_TEXT = (
    "time year people way day man thing woman life child world school state family student "
    "group country problem hand part place case week company system program question work "
    "government number night point home water room mother area money story fact month lot "
    "right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city name team minute idea body back "
    "parent face others level office door health person art war history party result change "
    "morning reason girl guy moment air teacher force education"
)
_WORDS = tuple(_WORDS_TEXT.split())

#: Words of the two probes.
PROBE_WORDS = (64, 512)


@dataclass(frozen=True, slots=True)
class TextScale:
    """Tokens of a prompt = `overhead_tokens` + `tokens_per_word` * words."""

    overhead_tokens: float
    tokens_per_word: float


def fit_scale(prompt_tokens: Sequence[int | None]) -> TextScale:
    """From the server's counts of the two probes. Raises ReplayError when they tell nothing."""
    few, many = prompt_tokens
    if few is None or many is None or many <= few:
        raise ReplayError(
            f"prompts of {PROBE_WORDS[0]} and {PROBE_WORDS[1]} words came to {few} and {many}"
            " tokens at the server: the length of a text cannot be planned with it"
        )
    per_word = (many - few) / (PROBE_WORDS[1] - PROBE_WORDS[0])
    return TextScale(few - per_word * PROBE_WORDS[0], per_word)


def words(seed: int, count: int) -> list[str]:
    """The same words in every process; fewer are the start of more."""
    # `random.random` keeps its sequence across releases, the functions built on it do not
    draw = random.Random(seed).random
    return [_WORDS[int(draw() * len(_WORDS))] for _ in range(count)]


def text_encoder(*, block_tokens: int, scale: TextScale) -> Callable[[PlannedRequest], str]:
    """A function from a request to its prompt, of one word at least.

    The edges of the blocks are rounded to whole words, each from the prompt's start: roundings do
    not add up. A block's place is part of its id, so equal ids are equal words.
    """

    def edge(tokens: int) -> int:
        return max(0, round((tokens - scale.overhead_tokens) / scale.tokens_per_word))

    def encode(request: PlannedRequest) -> str:
        *full, last = request.block_ids
        edges = [edge(block_tokens * number) for number in range(len(full) + 1)]
        parts = [
            words(id_, end - start)
            for id_, (start, end) in zip(full, pairwise(edges), strict=True)
        ]
        rest = max(edge(request.input_length), 1) - edges[-1]
        return " ".join([*chain.from_iterable(parts), *words(last, rest)])

    return encode
