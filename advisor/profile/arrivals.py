"""Arrival times of made-up loads, in seconds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

#: Arrivals are kept to 0.1 ms: below it a client cannot send, and the last digits of `log`
#: differ between machines.
_TICK_NS = 100_000


def tick_ns(time_s: float) -> int:
    """Seconds -> whole ticks, in nanoseconds."""
    return round(time_s * 1e9 / _TICK_NS) * _TICK_NS


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


def gamma_gaps(seed: int, count: int, mean_s: float, cv: float) -> list[float]:
    """Seconds between arrivals whose gaps are independent and gamma distributed.

    `cv` is their standard deviation over their mean, so the shape is 1 / cv^2: 1 is a Poisson
    process, above it arrivals come in bursts. By NumPy's legacy generator, the one whose sequence
    is promised to stay (NEP 19).
    """
    shape = 1 / cv**2
    drawn = np.random.RandomState(seed).standard_gamma(shape, count)
    return [float(gap) for gap in drawn * (mean_s / shape)]
