"""The shipped profiles, made by a seeded generator: the same bytes on every machine.

python -m advisor.profile.synth --out profiles/
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from advisor.profile.arrivals import (
    Phase,
    exponential,
    modulated_poisson,
    poisson,
    tick_ns,
)
from advisor.profile.lengths import (
    AZURE_CONTEXT,
    AZURE_GENERATED,
    MOONCAKE_DOCUMENT,
    uniform_lengths,
)
from advisor.profile.rows import fingerprint
from advisor.profile.write import write_profile
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile, Request

_NOTHING_SHARED: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one shipped profile is made."""

    make: Callable[[Random], list[Request]]
    block_tokens: int
    source: str
    #: one sentence for a person
    about: str
    seed: int


class _Ids:
    """Block ids of prompts that begin with one shared system prompt: ids 0, 1, … are its own."""

    def __init__(self, block_tokens: int, system_tokens: int) -> None:
        if system_tokens % block_tokens:
            raise ValueError("a system prompt must fill its blocks, or it would not be shared")
        self._block_tokens = block_tokens
        self.system = tuple(range(system_tokens // block_tokens))
        self._next = len(self.system)

    def extend(self, prefix: tuple[int, ...], tokens: int) -> tuple[int, ...]:
        """The ids of a prompt of so many tokens that begins with the blocks of `prefix`."""
        fresh = -(-tokens // self._block_tokens) - len(prefix)
        self._next += fresh
        return prefix + tuple(range(self._next - fresh, self._next))

    def whole(self, ids: tuple[int, ...], tokens: int) -> tuple[int, ...]:
        """The blocks that a prompt of so many tokens fills, so that a longer one shares them."""
        return ids[: tokens // self._block_tokens]


def _in_order(requests: list[Request]) -> list[Request]:
    return sorted(requests, key=lambda request: request.arrival_ns)


_CHAT_BLOCK, _CHAT_SYSTEM, _CHAT_END_S, _CHAT_MAX_TOKENS = 256, 2048, 900.0, 8000
#: sessions per second and the chance of another turn: 4 / (1 - 0.5) = 8 requests a second
_SESSION_RATE, _ANOTHER_TURN = 4.0, 0.5
#: from reading an answer to asking again, and how long an answer's token takes to be written
_THINK_S, _TOKEN_S = 8.0, 0.02
#: A recorded context holds the conversation so far; one message is taken as a quarter of it
_MESSAGE = AZURE_CONTEXT.times(0.25)


def _chat_shared_prefix(random: Random) -> list[Request]:
    ids = _Ids(_CHAT_BLOCK, _CHAT_SYSTEM)
    requests: list[Request] = []
    # from before the start, so that the first minute has as many follow-ups as any other
    for number, began_s in enumerate(poisson(random, _SESSION_RATE, -120.0, _CHAT_END_S)):
        requests += _session(random, ids, f"s{number}", began_s)
    return _in_order([r for r in requests if 0 <= r.arrival_ns < tick_ns(_CHAT_END_S)])


def _session(random: Random, ids: _Ids, name: str, began_s: float) -> list[Request]:
    """Turns of one conversation: each prompt holds all that was said before it."""
    turns: list[Request] = []
    now_s, tokens, shared = began_s, _CHAT_SYSTEM, ids.system
    while True:
        tokens += _MESSAGE.draw(random)
        if tokens > _CHAT_MAX_TOKENS:
            return turns
        prompt = ids.extend(shared, tokens)
        output = AZURE_GENERATED.draw(random)
        turns.append(Request(tick_ns(now_s), tokens, output, prompt, name))
        if random.random() >= _ANOTHER_TURN:
            return turns
        shared = ids.whole(prompt, tokens)
        tokens += output
        now_s += output * _TOKEN_S + exponential(random, _THINK_S)


_MIXED_BLOCK, _MIXED_SYSTEM, _MIXED_END_S, _DOCUMENT_SHARE = 128, 512, 1400.0, 0.25
#: Bursts of 0.8 s among calm of 3 s on average: 3.9 requests a second in all
_BURSTS = (Phase(rate_rps=2.2, mean_s=3.0), Phase(rate_rps=10.5, mean_s=0.8))


def _chat_and_documents(random: Random) -> list[Request]:
    ids = _Ids(_MIXED_BLOCK, _MIXED_SYSTEM)
    requests = []
    for time_s in modulated_poisson(random, _BURSTS, 0.0, _MIXED_END_S):
        if random.random() < _DOCUMENT_SHARE:
            tokens = MOONCAKE_DOCUMENT.draw(random)
            output, shared = uniform_lengths(random, 150, 300), _NOTHING_SHARED
        else:
            tokens = max(_MIXED_SYSTEM + 16, AZURE_CONTEXT.draw(random))
            output, shared = AZURE_GENERATED.draw(random), ids.system
        prompt = ids.extend(shared, tokens)
        requests.append(Request(tick_ns(time_s), tokens, output, prompt))
    return requests


_TINY_BLOCK, _TINY_SYSTEM, _TINY_END_S, _TINY_RATE = 128, 512, 600.0, 2.5
#: of the documents, those that may have up to 1,800 tokens
_TINY_LONG_SHARE = 0.1


def _tiny_cpu(random: Random) -> list[Request]:
    """Half of it documents: a prefill holds up the streams beside it once, so the share of gaps
    that one hits is about documents a second times the usual gap, whatever the answers' length.
    Were all of them long, they would fill the server before that share is well above a
    hundredth; so few are."""
    ids = _Ids(_TINY_BLOCK, _TINY_SYSTEM)
    requests = []
    for time_s in poisson(random, _TINY_RATE, 0.0, _TINY_END_S):
        if random.random() < 1 / 2:
            longest = 1800 if random.random() < _TINY_LONG_SHARE else 1200
            tokens, shared = uniform_lengths(random, 800, longest), _NOTHING_SHARED
        else:
            tokens, shared = _TINY_SYSTEM + uniform_lengths(random, 30, 130), ids.system
        output = uniform_lengths(random, 32, 64)
        prompt = ids.extend(shared, tokens)
        requests.append(Request(tick_ns(time_s), tokens, output, prompt))
    return requests


_AZURE = "AzureLLMInferenceTrace_conv.csv (Azure/AzurePublicDataset, CC-BY-4.0)"
_MOONCAKE = "conversation_trace.jsonl (kvcache-ai/Mooncake, Apache-2.0)"

RECIPES: dict[str, Recipe] = {
    "chat-shared-prefix": Recipe(
        make=_chat_shared_prefix,
        block_tokens=_CHAT_BLOCK,
        source=f"synthetic; lengths from the published quantiles of {_AZURE}",
        about="Conversations under one system prompt of 2,048 tokens, near-Poisson at 8 "
        "requests a second; a message is a quarter of a recorded context.",
        seed=1,
    ),
    "chat-and-documents": Recipe(
        make=_chat_and_documents,
        block_tokens=_MIXED_BLOCK,
        source=f"synthetic; lengths from the published quantiles of {_AZURE} for chats and of "
        f"{_MOONCAKE} for documents",
        about="Bursts of chats with a system prompt of 512 tokens, a quarter of the requests "
        "are documents of 4,000 to 6,000 tokens, 4 requests a second.",
        seed=1,
    ),
    "tiny-cpu": Recipe(
        make=_tiny_cpu,
        block_tokens=_TINY_BLOCK,
        source="synthetic; uniform lengths that fit --max-model-len 2048",
        about="For a tiny model on two CPU cores: chats with a system prompt of 512 tokens, "
        "half of the requests are documents of 800 to 1,200 tokens, a few up to 1,800, 2.5 "
        "requests a second.",
        seed=1,
    ),
}


def synthesise(name: str, seed: int | None = None) -> Profile:
    """Make a shipped profile; another seed gives another load of the same kind.

    Raises ProfileError for a name that is not in RECIPES.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        raise ProfileError(
            f"no profile {name!r} can be made; expected one of {', '.join(RECIPES)}"
        )
    used = recipe.seed if seed is None else seed
    requests = tuple(recipe.make(Random(used)))
    return Profile(
        name=name,
        requests=requests,
        block_tokens=recipe.block_tokens,
        sha256=fingerprint(requests),
        source=recipe.source,
        licence="Apache-2.0",
        made_by=f"advisor profile synth {name} --seed {used}. {recipe.about}",
    )


def main(argv: list[str] | None = None) -> None:
    """Write all shipped profiles into a folder."""
    parser = argparse.ArgumentParser(prog="python -m advisor.profile.synth")
    parser.add_argument("--out", type=Path, default=Path("profiles"), help="folder to write to")
    folder: Path = parser.parse_args(argv).out
    folder.mkdir(parents=True, exist_ok=True)
    for name in RECIPES:
        write_profile(synthesise(name), folder / f"{name}.jsonl")


if __name__ == "__main__":
    main()
