"""Token lengths with the quantiles that public traces were found to have."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of lengths, straight on a log scale between its known quantiles."""

    #: (share of requests at or below, tokens), ascending, from share 0 to share 1
    quantiles: tuple[tuple[float, float], ...]

    def draw(self, random: Random) -> int:
        """Tokens, at least 1."""
        share = random.random()
        shares = [point[0] for point in self.quantiles]
        right = min(bisect_right(shares, share), len(shares) - 1)
        (low, a), (high, b) = self.quantiles[right - 1], self.quantiles[right]
        part = (share - low) / (high - low)
        return max(1, round(math.exp(math.log(a) + part * (math.log(b) - math.log(a)))))

    def times(self, factor: float) -> "Lengths":
        """All lengths so many times as long."""
        return Lengths(tuple((share, tokens * factor) for share, tokens in self.quantiles))


def uniform_lengths(random: Random, low: int, high: int) -> int:
    """Tokens from low to high, both included, every length alike."""
    return low + int(random.random() * (high - low + 1))


#: AzureLLMInferenceTrace_conv.csv (Azure/AzurePublicDataset, 2023, CC-BY-4.0), 19,366 requests:
#: ContextTokens and GeneratedTokens at p50, p90, p99 and the maximum; the lower ends are round.
AZURE_CONTEXT = Lengths(((0.0, 32), (0.5, 1020), (0.9, 2735), (0.99, 4142), (1.0, 14050)))
AZURE_GENERATED = Lengths(((0.0, 8), (0.5, 129), (0.9, 424), (0.99, 601), (1.0, 1000)))
#: conversation_trace.jsonl (kvcache-ai/Mooncake, FAST25-release, Apache-2.0), 12,031 requests:
#: input_length has its median at 6,909; here it is kept between 4,000 and 6,000,
#: its shorter half, so that one GPU carries the load.
MOONCAKE_DOCUMENT = Lengths(((0.0, 4000), (1.0, 6000)))
