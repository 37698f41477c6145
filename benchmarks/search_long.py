"""Whether a long search stays quick and small: one job of 200 trials on the simulator.

    python benchmarks/search_long.py [--trials N]

prints one JSON object: how long the default sampler took for an ask along the way, the longest
time that it took for an ask or for what it was told, and how much memory the process held. The
sampler sees no more gain long before the end; other settings are taken then, so that it is asked
again with all that was told.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from advisor.profile.load import load_profile
from advisor.search.knob import Knob
from advisor.search.searcher import OptunaSearcher
from advisor.search.space import Space
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.job import JobSpec, Objective, Phase, Proposal, Trial, TrialResult
from advisor.terms.setting import Setting
from advisor.terms.target import parse_target
from advisor.tune.job import Conductor
from advisor.tune.trial import TrialRunner
from advisor.wiring.foreseen import foreseen
from advisor.wiring.prepare import prepare
from advisor.wiring.run import always_valid
from tests.flow.loads import write_small

MODEL, HARDWARE = "llama-3.1-8b", "h100-sxm"
BASELINE = "--max-model-len 4096 --max-num-seqs 256"
#: 256 settings
SPACE = Space(
    (
        Knob.ranging("max_num_batched_tokens", 256, 16384, log=True),
        Knob.ranging("gpu_memory_utilization", 0.80, 0.95, step=0.05),
        Knob.of("enable_prefix_caching", [True, False]),
        Knob.of("max_num_seqs", [64, 128, 256, 512, 1024]),
    )
)
#: Asks that one figure is the median of.
_ASKS = 10


@dataclass
class Untiring:
    """Implements `tune.ports.Searcher`: times the sampler, and goes on where it sees no gain."""

    sampler: OptunaSearcher
    #: in the order in which they are taken
    others: list[Setting]
    why_ended = "every setting of the Space was tried"
    asks_s: list[float] = field(default_factory=list)
    tells_s: list[float] = field(default_factory=list)
    #: of the process, before each ask
    rss_mb: list[float] = field(default_factory=list)
    _tried: set[str] = field(default_factory=set)

    def ask(self) -> Proposal | None:
        self.rss_mb.append(psutil.Process().memory_info().rss / 2**20)
        began_s = time.perf_counter()
        proposal = self.sampler.ask()
        self.asks_s.append(time.perf_counter() - began_s)
        return proposal or self._other()

    def resume(self, proposal: Proposal) -> None:
        self.sampler.resume(proposal)

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        self._tried.add(proposal.setting.key)
        began_s = time.perf_counter()
        self.sampler.tell(proposal, result)
        self.tells_s.append(time.perf_counter() - began_s)

    def simpler(self, setting: Setting, baseline: Setting) -> Proposal | None:
        return self.sampler.simpler(setting, baseline)

    def _other(self) -> Proposal | None:
        while self.others:
            setting = self.others.pop()
            if setting.key not in self._tried:
                return Proposal(setting, "no gain was seen")
        return None


class Progress:
    """Implements `tune.watch.Watch`."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None

    def trial_closed(self, trial: Trial) -> None:
        if trial.phase is not Phase.CONFIRM and trial.number % 20 == 19:
            print(f"{trial.number + 1} trials", file=sys.stderr)


def spec_of(profile: Path, trials: int) -> JobSpec:
    return JobSpec(
        model=MODEL,
        profile_path=str(profile),
        profile_sha256=load_profile(profile).sha256,
        engine="sim",
        hardware=HARDWARE,
        vllm_command="vllm",
        baseline=BASELINE,
        space=SPACE.to_toml(),
        sampler="advisor",
        objective=Objective.HEADROOM,
        load=4.0,
        launches=trials,
        time_budget_s=None,
        confidence=0.95,
        targets=(parse_target("ttft:p90<=200ms"), parse_target("itl:p90<=20ms")),
        accept_precision_change=False,
        seed=0,
        rounds=1,
    )


def play(folder: Path, trials: int) -> tuple[Untiring, int]:
    """The searcher after the job, and how many search trials the job had."""
    prepared = prepare(spec_of(write_small(folder / "small.jsonl"), trials))
    spec, watch = prepared.spec, Progress()
    about = asyncio.run(prepared.bench.about())
    prepared.searcher.physics = foreseen(prepared, about)
    others = SPACE.settings(spec.model, dict(prepared.baseline.flags))
    Random(0).shuffle(others)
    searcher = Untiring(prepared.searcher, others)
    url = f"sqlite:///{folder / 'ledger.db'}"
    with SqlLedger(url, owner=Owner.this_process()) as ledger:
        job = ledger.open_job(spec, about)
        windows = prepared.split.windows
        runner = TrialRunner(
            prepared.bench,
            spec,
            windows,
            always_valid,
            watch,  # type: ignore[arg-type]
        )
        conductor = Conductor(
            job,
            prepared.baseline,
            windows,
            ledger,
            searcher,
            runner,
            watch,  # type: ignore[arg-type]
        )
        advice = asyncio.run(conductor.run())
    return searcher, advice.search_launches


def figures(searcher: Untiring, trials: int) -> dict[str, float]:
    """A trial that is not the baseline has one ask before it."""

    def median_until(ended: int, values: list[float]) -> float:
        return round(statistics.median(values[max(ended - _ASKS, 0) : ended]), 4)

    quarters = [round(trials * part / 4) for part in (1, 2, 4)]
    return {
        "trials": trials,
        **{f"ask_s_at_{n}": median_until(n - 1, searcher.asks_s) for n in quarters},
        "ask_s_max": _most(searcher.asks_s),
        "tell_s_max": _most(searcher.tells_s),
        **{f"rss_mb_at_{n}": median_until(n - 1, searcher.rss_mb) for n in quarters},
        "rss_growth_mb": round(
            median_until(trials - 1, searcher.rss_mb)
            - median_until(quarters[1] - 1, searcher.rss_mb),
            1,
        ),
    }


def _most(values: Iterable[float]) -> float:
    return round(max(values), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="the baseline's included")
    asked = parser.parse_args()
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        searcher, trials = play(Path(folder), asked.trials)
    seconds = round(time.perf_counter() - began_s)
    print(json.dumps({**figures(searcher, trials), "seconds": seconds}))


if __name__ == "__main__":
    main()
