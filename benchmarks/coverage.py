"""Whether the bounds hold what they claim; prints one JSON object.

The scheduler simulator plays loads of several kinds, from light to near saturation, so the truth
is known: the percentile over all windows of a row. Bounds are first calibrated as a job's are, on
recordings of the row's kind; the windows they are then tried on come from other recordings.

python benchmarks/coverage.py [--seed N] [--windows N]
"""

if __name__ == "coverage":
    # beside it, other benchmarks find this file where a library looks for the package of its name
    raise ImportError("a benchmark, not the package of this name")

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool as Processes
from random import Random
from typing import Any

import numpy as np

from advisor.bench.rehearse import Stage, played, rehearse
from advisor.measure.curves import Curve, Curves, curves, pool
from advisor.measure.looks import MOST_LOOKS, Looks
from advisor.measure.margin import Margin, margin_of
from advisor.measure.power import PlannedSample, check_power
from advisor.measure.tail import clumping, nearest_rank
from advisor.profile.arrivals import Phase, modulated_poisson
from advisor.profile.columns import Columns
from advisor.profile.lengths import Lengths
from advisor.profile.rows import fingerprint
from advisor.profile.synth import RECIPES
from advisor.profile.window import split
from advisor.sim.config import EngineConfig, resolve
from advisor.sim.hardware import hardware
from advisor.terms.calibration import Calibration
from advisor.terms.errors import TargetError
from advisor.terms.profile import Plan, Profile, Request, Windows
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Unit

S = 10**9
CONFIDENCE = 0.95
LOOKS = Looks(CONFIDENCE, looks=MOST_LOOKS)
#: windows of one verdict, and of the longest of its looks
POOL_OF = 3
LONGEST = POOL_OF * MOST_LOOKS
#: of what the server carries
LOADS = (0.4, 0.7, 0.9)
ASKED = ((Metric.TTFT, 95.0), (Metric.TTFT, 99.0), (Metric.ITL, 99.0))
#: recordings that each kind of load is calibrated on, in turns
RECORDINGS = 4
#: pools drawn of each row's windows; jobs, each with all its looks
POOLS, JOBS = 300, 200
#: a good setting's limit, times its true percentile: how often it stays undecided
GOOD = 1.5


@dataclass(frozen=True)
class Made:
    """Traffic without shared prefixes: arrivals in turns of phases, lengths at random."""

    seconds: float
    phases: tuple[Phase, ...]
    prompt: Lengths
    output: Lengths

    def __call__(self, random: Random) -> list[Request]:
        return [
            Request(round(at * S), self.prompt.draw(random), self.output.draw(random))
            for at in modulated_poisson(random, self.phases, 0.0, self.seconds)
        ]


KINDS: dict[str, Callable[[Random], list[Request]]] = {
    "short chats": Made(
        600.0,
        (Phase(10.0, 1e9),),
        Lengths(((0, 32), (0.5, 600), (0.9, 1670), (0.99, 3860), (1, 8000))),
        Lengths(((0, 8), (0.5, 130), (0.9, 320), (0.99, 660), (1, 1200))),
    ),
    "long documents": Made(
        2400.0,
        (Phase(1.0, 1e9),),
        Lengths(((0, 2000), (0.5, 12000), (0.9, 26000), (1, 40000))),
        Lengths(((0, 20), (0.5, 150), (0.9, 285), (1, 600))),
    ),
    "bursts": Made(
        1200.0,
        (Phase(3.0, 6.0), Phase(15.0, 2.0)),
        Lengths(((0, 32), (0.5, 1500), (0.9, 4750), (1, 8000))),
        Lengths(((0, 2), (0.5, 100), (0.9, 360), (1, 1000))),
    ),
    "heavy tails": Made(
        900.0,
        (Phase(8.0, 1e9),),
        Lengths(((0, 16), (0.5, 400), (0.9, 3100), (0.99, 16500), (1, 30000))),
        Lengths(((0, 40), (0.5, 71), (0.9, 272), (0.99, 1860), (1, 4000))),
    ),
    "bursts of chats and documents": RECIPES["chat-and-documents"].make,
    "shared prefix, sessions": RECIPES["chat-shared-prefix"].make,
}
#: prompt tokens per block id, where prompts share any
BLOCK_TOKENS = {"shared prefix, sessions": RECIPES["chat-shared-prefix"].block_tokens}
GAP_NS = 20 * S


def recorded(kind: str, seed: int) -> tuple[Profile, Windows]:
    """A recording of this kind, split as a job splits it."""
    requests = tuple(KINDS[kind](Random(seed)))
    block = BLOCK_TOKENS.get(kind, 128)
    profile = Profile(kind, requests, block, fingerprint(requests), "synthetic", "Apache-2.0", "")
    return profile, split(profile, windows=POOL_OF, rounds=2, gap_ns=GAP_NS)


def server() -> EngineConfig:
    flags = {"max_num_batched_tokens": 2048, "max_model_len": 65536}
    return resolve(Setting.of("llama-3.1-8b", flags, ()), hardware("h100-sxm"))


@dataclass(frozen=True)
class Calibrated:
    kind: str
    calibration: Calibration
    #: load multiple at which the server can do no more
    most: float


def calibrate(task: tuple[str, int]) -> Calibrated:
    kind, seed = task
    profile, windows = recorded(kind, seed)
    most = Stage(profile, windows, server(), seed).capacity()
    levels = (CONFIDENCE, LOOKS.level)
    found = rehearse(profile, windows, server(), ASKED, levels, load=most, seed=seed)
    return Calibrated(kind, found, most)


def play(task: tuple[str, float, int]) -> Curves:
    """One window of a recording of its own; the metrics asked for alone, to travel light."""
    kind, multiple, seed = task
    profile, windows = recorded(kind, seed)
    window = Random(seed).choice([*windows.search, *windows.held_out])
    plan = Plan(window, multiple, seed, windows.gap_ns)
    found = curves(played(Columns.of(profile), plan, server(), seed))
    kept: dict[Metric, Curve] = {m: found.by_metric[m] for m in (Metric.TTFT, Metric.ITL)}
    return Curves(kept, found.requests, found.window_ns, found.output_tokens, found.total_tokens)


def _decidable(windows: Sequence[Curves]) -> list[tuple[Metric, float]]:
    """By the check that refuses a job before its first launch."""
    mean = sum(w.requests for w in windows) / len(windows)
    gaps = sum(len(w.by_metric[Metric.ITL]) for w in windows) / len(windows)
    planned = PlannedSample(round(POOL_OF * mean), round(POOL_OF * gaps), POOL_OF, 1.0)
    found = []
    for metric, percentile in ASKED:
        with contextlib.suppress(TargetError):
            check_power([Target(metric, percentile, 1.0, Unit.MS)], planned, CONFIDENCE)
            found.append((metric, percentile))
    return found


Task = tuple[str, float, list[Curves], list[Calibration], tuple[Metric, float], int]


def row_of(task: Task) -> dict[str, Any]:
    return Row(*task).told()


class Row:
    """One percentile at one load: many pools held against the truth."""

    def __init__(
        self,
        kind: str,
        load: float,
        windows: list[Curves],
        calibrations: list[Calibration],
        asked: tuple[Metric, float],
        seed: int,
    ) -> None:
        self.kind, self.load, self.windows = kind, load, windows
        self.calibrations, (self.metric, self.percentile) = calibrations, asked
        self.allowed = round(1 - self.percentile / 100, 12)
        whole = pool(windows, self.metric)
        self.truth = whole.at(nearest_rank(self.allowed, len(whole)))
        self.random = np.random.default_rng(seed)

    def told(self) -> dict[str, Any]:
        drawn = list(self._pools(POOL_OF, POOLS))
        covers = [not self._met(rows, i, CONFIDENCE) for i, rows in enumerate(drawn)]
        nominal = [not self._met(rows, None, CONFIDENCE) for rows in drawn]
        false_met = [self._ever_met(rows, i) for i, rows in enumerate(self._pools(LONGEST, JOBS))]
        used = [self._margin(i, CONFIDENCE) for i in range(len(self.calibrations))]
        return {
            "case": self.kind,
            "load": self.load,
            "metric": f"{self.metric} p{self.percentile:g}",
            "requests_per_window": round(np.mean([w.requests for w in self.windows])),
            "truth_ms": round(self.truth / 1e6, 1),
            "nominal_coverage_pct": _pct(nominal),
            "coverage_pct": _pct(covers),
            "nominal_levels": [each.nominal for each in used],
            "margins": [round(self.truth / max(m.tight.at(self.truth), 1.0), 2) for m in used],
            "false_met_pct": _pct(false_met),
            "undecided_pct": {str(n): self._undecided(n) for n in (3, 6, 12)},
        }

    def _pools(self, size: int, count: int) -> Iterator[list[int]]:
        for _ in range(count):
            yield self.random.choice(len(self.windows), size, replace=False).tolist()

    def _met(
        self, rows: Sequence[int], calibration: int | None, level: float, factor: float = 1.0
    ) -> bool:
        clumped = clumping(pool([self.windows[row] for row in rows], self.metric), self.allowed)
        margin = self._margin(calibration, level)
        test = clumped.test(margin.nominal or level)
        return test.bounds(margin.tight.at(self.truth * factor)).upper <= self.allowed

    def _margin(self, calibration: int | None, level: float) -> Margin:
        if calibration is None:
            return Margin()
        known = self.calibrations[calibration % len(self.calibrations)]
        return margin_of(known.of(self.metric, self.percentile, level))

    def _ever_met(self, rows: Sequence[int], calibration: int) -> bool:
        """A job exactly on its limit that measures longer each time, until its looks are spent."""
        looks = range(POOL_OF, LONGEST + 1, POOL_OF)
        return any(self._met(rows[:seen], calibration, LOOKS.level) for seen in looks)

    def _undecided(self, size: int) -> float:
        pools = self._pools(size, 60)
        return _pct([not self._met(rows, i, CONFIDENCE, GOOD) for i, rows in enumerate(pools)])


def _pct(hits: Sequence[bool]) -> float:
    return round(100 * sum(hits) / len(hits), 1)


def tried(
    processes: Any, kind: str, load: float, known: list[Calibrated], windows: int, base: int
) -> list[dict[str, Any]]:
    """The rows of one kind at one share of what the server carries."""
    most = sum(each.most for each in known) / len(known)
    plays = [(kind, load * most, base + 1000 + number) for number in range(windows)]
    found = processes.map(play, plays, chunksize=10)
    calibrations = [each.calibration for each in known]
    asked = [(kind, load, found, calibrations, each, base) for each in _decidable(found)]
    rows: list[dict[str, Any]] = processes.map(row_of, asked, chunksize=1)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1, help="another one makes other recordings")
    parser.add_argument("--windows", type=int, default=115, help="replays of each row")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these")
    asked = parser.parse_args()
    began, base = time.monotonic(), asked.seed * 1_000_003
    with Processes(2) as processes:
        kinds = asked.kind or list(KINDS)
        tasks = [(kind, base + i) for kind in kinds for i in range(RECORDINGS)]
        known = processes.map(calibrate, tasks, chunksize=1)
        rows: list[dict[str, Any]] = []
        for kind in kinds:
            own = [each for each in known if each.kind == kind]
            for load in LOADS:
                rows += tried(processes, kind, load, own, asked.windows, base)
    result = {
        "cases": len(rows),
        "min_coverage_pct": min(row["coverage_pct"] for row in rows),
        "max_false_met_pct": max(row["false_met_pct"] for row in rows),
        "replays": len(kinds) * len(LOADS) * asked.windows,
        "seed": asked.seed,
        "seconds": round(time.monotonic() - began),
        "rows": rows,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
