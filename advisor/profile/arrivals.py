"""Arrival times of made-up loads, in seconds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Phase:
    """A state of a load: Poisson at a rate, for an exponentially distributed time."""

    rate_rps: float
    mean_s: float


def exponential(random: Random, mean: float) -> float:
    """From `random.random()` alone: its sequence is promised to stay, `expovariate`'s is not."""
    return -mean * math.log(1.0 - random.random())


def poisson(random: Random, rate_rps: float, start_s: float, end_s: float) -> Iterator[float]:
    """Ascending times in [start, end)."""
    now = start_s + exponential(random, 1 / rate_rps)
    while now < end_s:
        yield now
        now += exponential(random, 1 / rate_rps)


def modulated_poisson(
    random: Random, phases: tuple[Phase, ...], start_s: float, end_s: float
) -> Iterator[float]:
    """Ascending times in [start, end), the phases taking turns: bursts come from a busy one."""
    now, turn = start_s, 0
    while now < end_s:
        phase = phases[turn % len(phases)]
        until = min(now + exponential(random, phase.mean_s), end_s)
        yield from poisson(random, phase.rate_rps, now, until)
        now, turn = until, turn + 1
