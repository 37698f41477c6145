"""How many launches the search needs, on servers whose best setting is known.

    python benchmarks/search_bank.py [--problems N] [--seeds N] [--half development|held-out]
        [--samplers A,B]

prints one JSON object with the fields of every sampler, and exits 1 when the advisor needs more
launches than random settings do, or advises what misses in more than 5 % of jobs.

The truth of a problem is not the simulator that the default sampler foresees with
(`reference/problems.py`): it has other constants, a cliff, knobs that do nothing and settings that
run out of memory, and its launches differ. Regret is judged by that truth,
after each launch, for the setting with the best measured headroom; which may fall away again after
it was close. The truth is that of the windows that the job plays, its held-out ones too, so what
bounds do not cover of other traffic does not show here (`coverage.py` has that). `tpe` begins with
ten random launches, `tpe-4`, the product's, with four. The advisor plays five times the seeds.
"""

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from advisor.advice.choose import score
from advisor.search.searcher import OptunaSearcher
from advisor.terms.job import Job, Phase, Trial
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.traces import Int64, Traces
from advisor.tune.job import Conductor
from advisor.tune.trial import TrialRunner
from advisor.wiring.foreseen import foreseen
from advisor.wiring.prepare import Prepared, prepare
from advisor.wiring.rehearsed import rehearsed
from advisor.wiring.run import always_valid
from benchmarks.reference.problems import MULTIPLES, PROBLEMS, Problem, spec_of
from benchmarks.reference.searchers import Ranking, Twisted
from benchmarks.reference.truth import Edges, Truth, TruthBench, limits_of
from tests.contract.memory_ledger import MemoryLedger

SAMPLERS = ("advisor", "tpe", "tpe-4", "gp", "random", "grid", "simulator", "shuffled", "adverse")
LAUNCHES = 12
#: A setting whose headroom is this share below the best is as good as it.
CLOSE = (0.02, 0.05)
#: Limits, as multiples of what a setting drawn at random does at the job's load; with the least
#: of them there may be none that meets them.
TIGHT = (1.15, 1.6, 2.5, 1.3, 2.0, 1.1, 0.6)
#: A load multiple that no server here carries.
_OVERLOAD = 8.0


@dataclass(frozen=True)
class Posed:
    """A problem with its targets, and the truth about each setting."""

    problem: Problem
    truth: Truth
    prepared: Prepared
    #: setting key -> logarithm of the headroom; those that do not run are not there
    log_headroom: dict[str, float]
    #: logarithms of the least and the most load multiple that are looked at
    edges: Edges

    @property
    def best(self) -> float:
        return max(self.log_headroom.values())

    def carries(self, setting: Setting) -> float:
        """The logarithm of the headroom of any setting, one of the Space or not; -inf where it
        does not run."""
        if setting.key in self.log_headroom:
            return self.log_headroom[setting.key]
        config = self.truth.runs(setting)
        if config is None:
            return -math.inf
        return self.truth.carries(config, self.prepared.spec.targets, self.edges)


@lru_cache(maxsize=1)
def pose(number: int) -> Posed:
    """The same for a number, whoever asks."""
    problem = Problem(number)
    truth, rng = Truth(problem), np.random.default_rng([number, 22])
    load = round(float(rng.uniform(0.3, 0.7)) * _capacity(truth), 3)
    tight = TIGHT[number // 2 % len(TIGHT)]
    targets = limits_of(truth, load, tight, rng)
    edges = math.log(load * MULTIPLES[0]), math.log(load * MULTIPLES[-1])
    running = {s.key: config for s in problem.settings if (config := truth.runs(s))}
    known = {key: truth.carries(config, targets, edges) for key, config in running.items()}
    tokens = int(rng.choice([1024, 2048, 8192]))
    baseline = f"--max-model-len 16384 --max-num-batched-tokens {tokens}"
    if number % 8 == 3:
        best = max(known, key=known.__getitem__)
        flags = next(dict(s.flags) for s in problem.settings if s.key == best)
        baseline = " ".join(Setting.of("m", flags).argv()[1:])
    prepared = prepare(spec_of(problem, load, targets, baseline))
    about = asyncio.run(TruthBench(truth, 0).about())
    return Posed(problem, truth, rehearsed(prepared, about), known, edges)


def _capacity(truth: Truth) -> float:
    """The load multiple that a middling setting can do no more at."""
    running = [config for s in truth.problem.settings if (config := truth.runs(s))]
    replays = truth.traces(running[len(running) // 2], _OVERLOAD)

    def inside(each: Traces, moments_ns: Int64) -> int:
        since, until = each.window_start_ns, each.window_end_ns
        return int(((moments_ns >= since) & (moments_ns < until)).sum())

    ended = sum(inside(each, each.end_ns) for each in replays)
    return _OVERLOAD * ended / sum(inside(each, each.planned_ns) for each in replays)


class NoWatch:
    """Implements `tune.watch.Watch`."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@dataclass(frozen=True)
class Played:
    """One job."""

    sampler: str
    #: after each search launch, the share by which the best so far lies below the best there is
    regrets: list[float]
    outcome: str
    advised_meets: bool | None
    some_meets: bool
    baseline_is_best: bool


def play(number: int, sampler: str, seed: int) -> Played:
    posed = pose(number)
    spec = replace(posed.prepared.spec, seed=1000 * number + seed, sampler=_named(sampler))
    prepared = replace(posed.prepared, spec=spec)
    bench = TruthBench(posed.truth, spec.seed)
    about = asyncio.run(bench.about())
    ledger = MemoryLedger()
    job = ledger.open_job(spec, about)
    searcher = _searcher(prepared, job, sampler)
    runner = TrialRunner(
        bench,
        spec,
        prepared.split.windows,
        always_valid,
        NoWatch(),  # type: ignore[arg-type]
    )
    conductor = Conductor(
        job,
        prepared.baseline,
        prepared.split.windows,
        ledger,
        searcher,
        runner,
        NoWatch(),  # type: ignore[arg-type]
    )
    advice = asyncio.run(conductor.run())
    log_load = math.log(spec.load)
    trials = [t for t in ledger.trials(job.id) if t.phase is not Phase.CONFIRM]
    choice = advice.choice
    return Played(
        sampler=sampler,
        regrets=_regrets(posed, trials, spec.launches),
        outcome=str(advice.outcome),
        advised_meets=None if choice is None else posed.carries(choice.setting) >= log_load,
        some_meets=posed.best >= log_load,
        baseline_is_best=posed.carries(prepared.baseline) >= posed.best - 0.02,
    )


def _named(sampler: str) -> str:
    return {"tpe-4": "tpe", "simulator": "grid", "shuffled": "advisor", "adverse": "advisor"}.get(
        sampler, sampler
    )


def _searcher(prepared: Prepared, job: Job, sampler: str) -> OptunaSearcher | Ranking:
    physics = foreseen(prepared, job.engine)
    assert physics is not None
    space, spec = prepared.space, prepared.spec
    if sampler == "simulator":
        return Ranking(physics, space.settings(spec.model, dict(prepared.baseline.flags)))
    found = prepare(spec).searcher
    if sampler in ("shuffled", "adverse"):
        found.physics = Twisted(physics, sampler, spec.seed)  # type: ignore[assignment]
    elif sampler == "advisor":
        found.physics = physics
    if sampler == "tpe":
        found.startup_trials = 10
    return found


def _regrets(posed: Posed, trials: Sequence[Trial], launches: int) -> list[float]:
    found: list[float] = []
    best: Trial | None = None
    for trial in trials:
        value = score(trial.result, posed.prepared.spec)
        if trial.result.state is TrialState.MEASURED and value is not None:
            held = None if best is None else score(best.result, posed.prepared.spec)
            if held is None or value > held:
                best = trial
        true = -math.inf if best is None else posed.carries(best.setting)
        found.append(float(-math.expm1(true - posed.best)))
    return found + [found[-1]] * (launches - len(found))


def summary(played: Sequence[Played]) -> dict[str, float | None]:
    """The contract's fields, and how often the advice was right."""
    regrets = np.array([each.regrets for each in played])

    def launches_to(share: float) -> np.ndarray:
        hit = regrets <= share
        return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, LAUNCHES + 1)

    advised = [p for p in played if p.outcome in ("recommended", "keep_current")]
    wrong_none = [p for p in played if p.outcome == "none_meets" and p.some_meets]
    kept = [p for p in played if p.baseline_is_best]
    return {
        "jobs": len(played),
        "launches_to_2pct_median": float(np.median(launches_to(CLOSE[0]))),
        "launches_to_5pct_median": float(np.median(launches_to(CLOSE[1]))),
        "launches_to_5pct_p90": float(np.percentile(launches_to(CLOSE[1]), 90)),
        "in2pct_at_4_pct": _pct(regrets[:, 3] <= CLOSE[0]),
        "in2pct_at_8_pct": _pct(regrets[:, 7] <= CLOSE[0]),
        "in2pct_at_12_pct": _pct(regrets[:, 11] <= CLOSE[0]),
        "regret_at_8_pct": round(100 * float(regrets[:, 7].mean()), 2),
        "false_met_pct": _pct([p.advised_meets is False for p in advised]),
        "none_meets_wrong_pct": _pct([p in wrong_none for p in played]),
        "kept_when_best_pct": _pct([p.outcome != "recommended" for p in kept]),
        **{
            f"outcome_{name}": sum(p.outcome == name for p in played)
            for name in ("recommended", "keep_current", "not_proven", "none_meets", "blocked")
        },
    }


def _pct(hits: Iterable[object]) -> float | None:
    """None of none."""
    found = [bool(hit) for hit in hits]
    return round(100 * sum(found) / len(found), 1) if found else None


def _all_of(task: tuple[int, tuple[str, ...], int]) -> list[Played]:
    number, samplers, seeds = task
    # the advisor's share is the largest: it is the one that is judged
    return [
        play(number, sampler, seed)
        for sampler in samplers
        for seed in range(seeds if sampler == "advisor" else max(1, seeds // 5))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="jobs of the advisor per problem")
    parser.add_argument("--half", choices=("development", "held-out"), default="development")
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--problems", type=int, default=12, help=f"of {PROBLEMS}")
    asked = parser.parse_args()
    numbers = [
        n for n in range(asked.problems) if Problem(n).is_held_out == (asked.half == "held-out")
    ]
    samplers, start = tuple(asked.samplers.split(",")), time.perf_counter()
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    played: list[Played] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, found in enumerate(
            pool.map(_all_of, [(n, samplers, asked.seeds) for n in numbers]), 1
        ):
            played += found
            print(f"{done}/{len(numbers)} {time.perf_counter() - start:.0f} s", file=sys.stderr)
    by_name = {name: summary([p for p in played if p.sampler == name]) for name in samplers}
    told = {"problems": len(numbers), "half": asked.half, "jobs": len(played), "samplers": by_name}
    print(json.dumps({**told, "seconds": round(time.perf_counter() - start)}))
    return 0 if is_sound(by_name) else 1


def is_sound(samplers: Mapping[str, Mapping[str, float | None]]) -> bool:
    """What may never be, however few problems there are."""
    if (ours := samplers.get("advisor")) is None:
        return True
    chance = samplers.get("random")
    of = "launches_to_5pct_median"
    better = chance is None or (ours[of] or 0) <= (chance[of] or 0)
    return better and (ours["false_met_pct"] or 0) <= 5


if __name__ == "__main__":
    sys.exit(main())
