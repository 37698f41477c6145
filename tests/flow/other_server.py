"""Servers that are not what the simulator foresees, and whole jobs on them."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from advisor.bench.doubts import NO_DOUBT, Doubt
from advisor.bench.play import Progress, salt
from advisor.calibrate.constants import Constants
from advisor.calibrate.percentiles import percentile_ms
from advisor.measure.stop import known_at
from advisor.profile.columns import Columns
from advisor.profile.load import load_profile
from advisor.sim import EngineConfig, Hardware, SimRun, hardware, resolve, simulate
from advisor.sim.cost import CostModel
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.advice import Advice
from advisor.terms.job import (
    EngineInfo,
    Job,
    JobSpec,
    Launch,
    Objective,
    Phase,
    ServerFacts,
    Trial,
)
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target
from advisor.terms.traces import Look, Traces
from advisor.wiring.prepare import Prepared, prepare
from advisor.wiring.run import run
from tests.faults.jobs import Quiet
from tests.flow.loads import write_small

MODEL, DEVICE = "llama-3.1-8b", "h100-sxm"
#: A third slower than the data sheets say, and later to the first token.
SLOWER = Constants(weights=1.3, token=1.3, step=1.3, sequence=1.3, prefill_ms=1.0, request_ms=25.0)


@dataclass(frozen=True)
class OtherBench:
    """Implements `tune.ports.Bench`."""

    columns: Columns
    device: Hardware
    constants: Constants
    #: standard deviation of the logarithm of what a step of one launch takes
    noise: float
    seed: int

    async def about(self) -> EngineInfo:
        return EngineInfo("sim", "another", self.device.name, MODEL, simulated=True)

    def hold(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    @asynccontextmanager
    async def serve(
        self, setting: Setting, mark: Callable[[str], None] | None = None
    ) -> AsyncIterator["OtherServer"]:
        yield OtherServer(self, resolve(setting, self.device))

    def play(self, config: EngineConfig, plan: Plan, launch: int) -> SimRun:
        cost = self.constants.apply(CostModel.of(config, launch))
        slower = math.exp(np.random.default_rng(launch).normal(0, self.noise))
        return simulate(
            self.columns.load(plan),
            config,
            window_start_ns=plan.lead_in_ns,
            window_end_ns=plan.lead_in_ns + plan.window.duration_ns,
            cost=replace(cost, factors=np.round(cost.factors * slower).astype(np.int64)),
        )


@dataclass
class OtherServer:
    """One launch; which one, its first window tells."""

    bench: OtherBench
    config: EngineConfig
    _launch: int | None = None
    _facts: ServerFacts = field(default_factory=ServerFacts)

    @property
    def launch(self) -> Launch:
        resolved = tuple(sorted(self.config.resolved_flags().items()))
        return Launch(resolved, 60.0, self.config.kv_cache_tokens)

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        if self._launch is None:
            self._launch = salt(self.bench.seed, plan.salt, plan.window.name) % 2**32
        played = self.bench.play(self.config, plan, self._launch)
        self._facts = played.facts
        if look is None:
            return played.traces
        so_far = known_at(played.traces, played.traces.window_end_ns + look.after_ns)
        return so_far if look.settled(so_far) else played.traces

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        return self._facts if since is not None else ServerFacts()

    def doubt(self, facts: ServerFacts) -> Doubt:
        return NO_DOUBT


@dataclass(frozen=True)
class Place:
    """A job that could start, and the server that it is about."""

    folder: Path
    prepared: Prepared
    bench: OtherBench

    def estimates_ms(
        self, setting: Setting, points: Sequence[tuple[Metric, float]]
    ) -> list[float]:
        """What the average launch does at the job's load, over the search's windows."""
        windows, config = self.prepared.split.windows, resolve(setting, self.bench.device)
        calm = replace(self.bench, noise=0.0)
        load = self.prepared.spec.load
        plans = [Plan(each, load, 0, windows.gap_ns) for each in windows.search]
        replays = [calm.play(config, plan, 0).traces for plan in plans]
        found = [percentile_ms(replays, metric, percentile) for metric, percentile in points]
        return [math.inf if value is None else value for value in found]

    def settings(self) -> list[Setting]:
        fixed = dict(self.prepared.baseline.flags)
        return self.prepared.space.settings(MODEL, fixed)

    def aiming_at(self, *targets: Target) -> "Place":
        """The same with other targets."""
        spec = replace(self.prepared.spec, targets=targets)
        return replace(self, prepared=replace(prepare(spec), bench=self.bench))

    def run(self) -> "Ended":
        about = asyncio.run(self.bench.about())
        url = f"sqlite:///{self.folder / 'ledger.db'}"
        with SqlLedger(url, owner=Owner.this_process()) as ledger:
            job = ledger.open_job(self.prepared.spec, about)
            advice = asyncio.run(run(self.prepared, job, ledger, Quiet()))
            return Ended(ledger.job(job.id), tuple(ledger.trials(job.id)), advice)


@dataclass(frozen=True)
class Ended:
    """A job that came to its end."""

    job: Job
    trials: tuple[Trial, ...]
    advice: Advice

    @property
    def searched(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.phase is Phase.SEARCH]


def place(
    folder: Path,
    space: str,
    *targets: Target,
    baseline: str = "",
    load: float = 4.0,
    launches: int = 8,
    noise: float = 0.0,
    seed: int = 0,
) -> Place:
    """A job of the default sampler, which foresees with the simulator's own constants."""
    profile = load_profile(write_small(folder / "small.jsonl"))
    spec = JobSpec(
        model=MODEL,
        profile_path=str(folder / "small.jsonl"),
        profile_sha256=profile.sha256,
        engine="sim",
        hardware=DEVICE,
        vllm_command="vllm",
        baseline=f"--max-model-len 4096 {baseline}",
        space=space,
        sampler="advisor",
        objective=Objective.HEADROOM,
        load=load,
        launches=launches,
        time_budget_s=None,
        confidence=0.95,
        targets=targets,
        accept_precision_change=False,
        seed=seed,
        rounds=1,
    )
    bench = OtherBench(Columns.of(profile), hardware(DEVICE), SLOWER, noise, seed)
    return Place(folder, replace(prepare(spec), bench=bench), bench)
