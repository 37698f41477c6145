"""Whole small jobs: a scripted bench, a ledger in memory, the real searcher and conductor."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.advice.choose import score
from advisor.profile.window import split
from advisor.search.knob import Knob
from advisor.search.objective import excesses_at
from advisor.search.searcher import OptunaSearcher
from advisor.search.space import Space
from advisor.terms.advice import Advice
from advisor.terms.flags import FlagValue
from advisor.terms.job import (
    EngineInfo,
    Job,
    JobSpec,
    Objective,
    Phase,
    Proposal,
    Replay,
    Trial,
    TrialResult,
)
from advisor.terms.setting import Setting
from advisor.terms.target import Target, parse_target
from advisor.tune.job import Conductor
from advisor.tune.ports import Searcher
from advisor.tune.trial import TrialRunner
from advisor.wiring.run import client_gates
from tests.contract.memory_ledger import MemoryLedger
from tests.contract.scripted_bench import DEFAULTS, Dials, Script, ScriptedBench, Tap
from tests.unit.profile.builders import S, evenly

WINDOWS = split(evenly(1000, S // 2), windows=3, rounds=2, gap_ns=5 * S)
ENGINE = EngineInfo("scripted", "1", "paper", "m", simulated=True)
TARGETS = tuple(map(parse_target, ("ttft:p95<=1000ms", "itl:p95<=50ms", "errors<=2%")))
SPEC = JobSpec(
    model="m",
    profile_path="made.jsonl",
    profile_sha256="ab" * 32,
    engine="scripted",
    hardware=None,
    vllm_command="vllm",
    baseline="",
    space="",
    sampler="grid",
    objective=Objective.HEADROOM,
    load=1.0,
    launches=4,
    time_budget_s=None,
    confidence=0.95,
    targets=TARGETS,
    accept_precision_change=False,
    seed=7,
    multiples=(0.5, 1.0, 1.5, 2.0, 3.0),
    rounds=2,
    windows=3,
)
SEQS = "max_num_seqs"
SPACE = Space((Knob.of(SEQS, [8, 16, 32, 64]),))
#: The current setting gives no flag and runs with vLLM's default.
BASELINE = 256
assert DEFAULTS[SEQS] == BASELINE


def spec_with(*targets: str, **over: Any) -> JobSpec:
    asked = tuple(map(parse_target, targets)) or TARGETS
    return replace(SPEC, **{"targets": asked, **over})


def by_seqs(table: Mapping[int, Dials], other: Dials | None = None) -> Script:
    """Dials by the value of `max_num_seqs` in force, `BASELINE` for the current setting."""

    def script(setting: Setting) -> Dials:
        return table.get(int(setting.get(SEQS) or BASELINE), other or Dials())

    return script


class Quiet:
    """Implements `tune.watch.Watch`; remembers what it was told."""

    def __init__(self) -> None:
        self.closed: list[Trial] = []
        self.replays: list[tuple[str, float]] = []

    def job_opened(self, job: Job, planned_launches: int) -> None:
        """A door does this, not the conductor."""

    def trial_opened(self, number: int, phase: Phase, setting: Setting) -> None:
        self.opened = (number, phase, setting)

    def replaying(self, window: str, multiple: float) -> None:
        self.replays.append((window, multiple))

    def trial_closed(self, trial: Trial) -> None:
        self.closed.append(trial)

    def note(self, text: str) -> None:
        self.noted = text


def _no_tap(deed: str, detail: object) -> None:
    """Nobody listens."""


class TappedLedger(MemoryLedger):
    """Tells of every write before it is done."""

    tap: Tap = staticmethod(_no_tap)

    def resolve_targets(self, job_id: str, targets: Sequence[Target]) -> None:
        self.tap("resolve", targets)
        super().resolve_targets(job_id, targets)

    def open_trial(
        self,
        job_id: str,
        phase: Phase,
        proposal: Proposal,
        round_: int | None = None,
        repeat: int | None = None,
    ) -> int:
        self.tap("open", proposal.setting)
        return super().open_trial(job_id, phase, proposal, round_, repeat)

    def mark(self, job_id: str, number: int, token: str) -> None:
        self.tap("mark", token)
        super().mark(job_id, number, token)

    def add_replay(self, job_id: str, number: int, replay: Replay) -> None:
        self.tap("record", replay.plan)
        super().add_replay(job_id, number, replay)

    def close_trial(self, job_id: str, number: int, result: TrialResult) -> None:
        self.tap("close", result)
        super().close_trial(job_id, number, result)

    def spend(self, job_id: str, windows: Sequence[str]) -> None:
        self.tap("spend", tuple(windows))
        super().spend(job_id, windows)

    def store_advice(self, job_id: str, advice: Advice) -> None:
        self.tap("advise", advice)
        super().store_advice(job_id, advice)


class TappedSearcher:
    """Tells of every call before it is done."""

    def __init__(self, inner: Searcher, tap: Tap) -> None:
        self._inner, self._tap = inner, tap

    def ask(self) -> Proposal | None:
        self._tap("ask", None)
        return self._inner.ask()

    def resume(self, proposal: Proposal) -> None:
        self._tap("resume", proposal)
        self._inner.resume(proposal)

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        self._tap("tell", (proposal, result))
        self._inner.tell(proposal, result)

    def simpler(self, setting: Setting, baseline: Setting) -> Proposal | None:
        return self._inner.simpler(setting, baseline)

    @property
    def why_ended(self) -> str:
        return self._inner.why_ended


@dataclass
class World:
    """One job and everything around it; `run` again goes on as a new process would."""

    script: Script
    spec: JobSpec = SPEC
    space: Space = SPACE
    fixed: Mapping[str, FlagValue] = field(default_factory=dict)
    tap: Tap = _no_tap
    now_s: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        self.bench = ScriptedBench(self.script, self._tapped)
        self.ledger = TappedLedger(self.now_s)
        self.ledger.tap = self._tapped
        self.job = self.ledger.open_job(self.spec, ENGINE)
        self.deeds: list[tuple[str, object]] = []
        self.watch = Quiet()

    def _tapped(self, deed: str, detail: object) -> None:
        self.tap(deed, detail)
        self.deeds.append((deed, detail))

    def searcher(self) -> Searcher:
        """New, as every process makes one."""
        spec = self.spec
        return OptunaSearcher(
            self.space,
            spec.model,
            self.fixed,
            score=lambda result: score(result, spec),
            constraints=excesses_at(spec.load, len(spec.targets)),
            targets=len(spec.targets),
            sampler=spec.sampler,
            seed=spec.seed,
            load=spec.load if spec.objective in (Objective.HEADROOM, Objective.COST) else None,
        )

    def conductor(self) -> Conductor:
        runner = TrialRunner(self.bench, self.spec, WINDOWS, client_gates, self.watch)
        baseline = Setting.of(self.spec.model, self.fixed, tuple(self.space.searched()))
        job = self.ledger.claim(self.job.id)
        searcher = TappedSearcher(self.searcher(), self._tapped)
        return Conductor(job, baseline, WINDOWS, self.ledger, searcher, runner, self.watch)

    def run(self) -> Advice:
        return asyncio.run(self.conductor().run())

    @property
    def trials(self) -> list[Trial]:
        return self.ledger.trials(self.job.id)

    def of(self, phase: Phase) -> list[Trial]:
        return [trial for trial in self.trials if trial.phase is phase]

    def done(self, deed: str) -> list[Any]:
        """The details of one kind of deed, in order."""
        return [detail for done, detail in self.deeds if done == deed]


def lucky(carries: Mapping[int, float], spec: JobSpec = SPEC) -> World:
    """Settings that carry more on the search's windows only: picked by luck."""
    confirming = False

    def tap(deed: str, _: object) -> None:
        nonlocal confirming
        confirming = confirming or deed == "spend"

    def script(setting: Setting) -> Dials:
        value = setting.get(SEQS)
        luck = isinstance(value, int) and not confirming
        return Dials(carries=carries.get(int(value or 0), 1.0) if luck else 1.0)

    return World(script, spec, tap=tap)


def seqs(trials: Sequence[Trial]) -> list[FlagValue | None]:
    return [trial.setting.get(SEQS) for trial in trials]
