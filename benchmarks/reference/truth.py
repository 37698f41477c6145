"""How a problem's server really behaves: exhaustively known, and launched like any other."""

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from advisor.bench.doubts import NO_DOUBT, Doubt
from advisor.bench.play import Progress, salt
from advisor.calibrate.percentiles import Played, percentile_ms
from advisor.measure.stop import known_at
from advisor.profile.columns import Columns
from advisor.profile.load import load_profile
from advisor.profile.window import split
from advisor.search.physics import what_matters, worst_excess
from advisor.sim import EngineConfig, hardware, resolve, simulate
from advisor.sim.cost import CostModel
from advisor.sim.refusal import refused
from advisor.terms.errors import LaunchFailed
from advisor.terms.flags import FlagValue
from advisor.terms.job import EngineInfo, Launch, ServerFacts
from advisor.terms.outcome import Reason
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Unit
from advisor.terms.traces import Look, Traces
from advisor.tune.plan import gap_ns
from benchmarks.reference.problems import Problem, spec_of

#: logarithms of the least and the most load multiple that are looked at
Edges = tuple[float, float]


@dataclass(frozen=True)
class Truth:
    """How a problem's server really behaves."""

    problem: Problem
    _carried: dict[EngineConfig, float] = field(default_factory=dict, compare=False)

    @cached_property
    def columns(self) -> Columns:
        return Columns.of(load_profile(self.problem.profile_path))

    def config(self, setting: Setting) -> EngineConfig:
        """As the server resolves it; raises LaunchFailed where it does not start."""
        flaws, flags = self.problem.flaws, dict(setting.flags)
        if flaws.ignored is not None:
            flags.pop(flaws.ignored, None)
        config = resolve(Setting.of(setting.model, flags), hardware(self.problem.served[1]))
        if self.is_short(config) and not flaws.under_load:
            raise refused(Reason.OOM_PROFILING, "profiling", "out of memory", 0.05)
        return config

    def is_short(self, config: EngineConfig) -> bool:
        share, tokens = self.problem.flaws.oom_at
        return config.gpu_memory_utilization >= share and config.max_num_batched_tokens >= tokens

    def cost(self, config: EngineConfig, launch: int | None = None) -> CostModel:
        """Of one launch; None: of one that is like the average."""
        flaws = self.problem.flaws
        model = flaws.constants.apply(CostModel.of(config, launch or 0))
        factor = flaws.cliff if config.max_num_batched_tokens >= flaws.cliff_tokens else 1.0
        if launch is not None:
            noise = np.random.default_rng([launch, self.problem.number]).normal(0, flaws.noise)
            factor *= math.exp(noise)
        return replace(model, factors=np.round(model.factors * factor).astype(np.int64))

    def runs(self, setting: Setting) -> EngineConfig | None:
        """None where it does not, or not for long."""
        try:
            config = self.config(setting)
        except LaunchFailed:
            return None
        return None if self.is_short(config) else config

    @cached_property
    def plans(self) -> list[Plan]:
        """The windows that a job plays, its confirmation too, at the recorded load."""
        profile = load_profile(self.problem.profile_path)
        spec = spec_of(self.problem, 1.0, [], "")
        windows = split(
            profile, windows=spec.windows, rounds=spec.rounds, gap_ns=gap_ns(profile, spec)
        )
        return [
            Plan(each, 1.0, 0, windows.gap_ns) for each in (*windows.search, *windows.held_out)
        ]

    def loads(self, multiple: float) -> list[Played]:
        plans = [replace(plan, multiple=multiple) for plan in self.plans]
        return [
            Played(self.columns.load(p), p.lead_in_ns, p.lead_in_ns + p.window.duration_ns)
            for p in plans
        ]

    def traces(self, config: EngineConfig, multiple: float) -> list[Traces]:
        """Of the average launch."""
        return [
            simulate(
                played.load,
                config,
                window_start_ns=played.window_start_ns,
                window_end_ns=played.window_end_ns,
                cost=self.cost(config),
            ).traces
            for played in self.loads(multiple)
        ]

    def carries(self, config: EngineConfig, targets: Sequence[Target], edges: Edges) -> float:
        """The logarithm of the headroom to within 1 %, or the edge that it lies beyond."""
        longest = max(self.loads(math.exp(edges[1])), key=lambda each: len(each.load))
        key = what_matters(config, longest)
        if key not in self._carried:
            self._carried[key] = self._bisected(config, targets, edges)
        return self._carried[key]

    def _bisected(self, config: EngineConfig, targets: Sequence[Target], edges: Edges) -> float:
        def meets(at: float) -> bool:
            return worst_excess(self.traces(config, math.exp(at)), targets) <= 0

        low, high = edges
        if not meets(low):
            return low
        if meets(high):
            return high
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (middle, high) if meets(middle) else (low, middle)
        return (low + high) / 2


@dataclass(frozen=True, slots=True)
class TruthBench:
    """Implements `tune.ports.Bench` on a problem's server."""

    truth: Truth
    seed: int

    async def about(self) -> EngineInfo:
        model, device = self.truth.problem.served
        return EngineInfo("sim", "bank", device, model, simulated=True)

    def hold(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    @asynccontextmanager
    async def serve(
        self, setting: Setting, mark: Callable[[str], None] | None = None
    ) -> AsyncIterator["TruthServer"]:
        yield TruthServer(self.truth, setting, self.truth.config(setting), self.seed)


@dataclass(slots=True)
class TruthServer:
    """One launch; which one, its first window tells."""

    truth: Truth
    setting: Setting
    config: EngineConfig
    seed: int
    _launch: int | None = None
    _facts: ServerFacts = field(default_factory=ServerFacts)

    @property
    def launch(self) -> Launch:
        resolved = self.config.resolved_flags()
        ignored = self.truth.problem.flaws.ignored
        told = () if ignored is None else self._told_of(ignored, resolved)
        return Launch(tuple(sorted(resolved.items())), 60.0, self.config.kv_cache_tokens, told)

    def _told_of(self, name: str, resolved: Mapping[str, FlagValue]) -> tuple[str, ...]:
        asked = self.setting.get(name)
        if asked in (None, resolved[name]):
            return ()
        return (f"{name}: asked {asked}, runs {resolved[name]}",)

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        if self.truth.is_short(self.config):
            raise refused(Reason.OOM_UNDER_LOAD, "load", "out of memory under load", 0.02)
        if self._launch is None:
            self._launch = salt(self.seed, plan.salt, plan.window.name) % 2**32
        run = simulate(
            self.truth.columns.load(plan),
            self.config,
            window_start_ns=plan.lead_in_ns,
            window_end_ns=plan.lead_in_ns + plan.window.duration_ns,
            cost=self.truth.cost(self.config, self._launch),
        )
        self._facts = run.facts
        if look is None:
            return run.traces
        so_far = known_at(run.traces, run.traces.window_end_ns + look.after_ns)
        return so_far if look.settled(so_far) else run.traces

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        return self._facts if since is not None else ServerFacts()

    def doubt(self, facts: ServerFacts) -> Doubt:
        return NO_DOUBT


def limits_of(truth: Truth, load: float, tight: float, rng: np.random.Generator) -> list[Target]:
    """TTFT p95 and ITL p99 of one random setting that runs, `tight` times as long."""
    running = [config for s in truth.problem.settings if (config := truth.runs(s))]
    traces = truth.traces(running[int(rng.integers(len(running)))], load)
    found = []
    for metric, percentile in ((Metric.TTFT, 95.0), (Metric.ITL, 99.0)):
        value = percentile_ms(traces, metric, percentile)
        assert value is not None
        found.append(Target(metric, percentile, round(value * tight, 1), Unit.MS))
    return found
