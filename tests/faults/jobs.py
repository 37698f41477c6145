"""Whole jobs on the stand-in whose Space is a fault and none, with limits of seconds.

The parts are those that `wiring.prepare` builds, with a profile of seconds in place of minutes:
its checks of power would refuse that, and nothing here is about proof.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from advisor.advice.choose import score
from advisor.bench.live import LiveBench
from advisor.engine import VllmEngine
from advisor.engine.device import FileDevices
from advisor.profile.rows import fingerprint
from advisor.profile.window import split
from advisor.search.objective import excesses_at
from advisor.search.searcher import OptunaSearcher
from advisor.search.spacefile import parse_space
from advisor.standin.device import VARIABLE
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.advice import Advice
from advisor.terms.flags import parse_flags
from advisor.terms.job import EngineInfo, Job, JobSpec, Objective, Phase, Trial
from advisor.terms.profile import Profile, Request
from advisor.terms.setting import Setting
from advisor.terms.target import parse_target
from advisor.tune.plan import SplitPlan
from advisor.wiring.prepare import Prepared
from advisor.wiring.run import run

COMMAND = (sys.executable, "-m", "advisor.standin")
ROOT = Path(__file__).resolve().parents[2]
MODEL = "llama-3.1-8b"
BASELINE = "--max-model-len 4096 --sim-speed 10"
#: Limits that only a failed request exceeds, and so wide that a busy machine spoils no replay.
TARGETS = ("ttft:p50<=60000ms", "itl:p50<=60000ms", "errors<=5%")
WINDOW_NS, GAP_NS, RATE_RPS = 500_000_000, 100_000_000, 60.0
ABOUT = EngineInfo("vllm", "vllm-sim test", "a test's machine", MODEL, simulated=True)
#: Marks every process of a test, also for who does not know of launch tokens.
MARK = "ADVISOR_TEST_MARK"


@dataclass(frozen=True, slots=True)
class Limits:
    """Every timeout of a launch, in seconds."""

    start_s: float = 60.0
    start_stall_s: float = 45.0
    stop_grace_s: float = 2.0
    stall_s: float = 20.0
    release_s: float = 10.0
    quiet_s: float = 10.0


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job lives."""

    folder: Path
    mark: str
    limits: Limits = DEFAULT_LIMITS
    rounds: int = 0

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def device(self) -> Path:
        """Stands for the GPU."""
        return self.folder / "device.jsonl"


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that came to its end."""

    job: Job
    trials: tuple[Trial, ...]
    advice: Advice

    def with_fault(self, fault: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.setting.get("sim_fault") == fault]


def tiny(rounds: int) -> Profile:
    """Half a second for each window: short prompts, a few tokens each."""
    random, requests, now_s = Random(7), list[Request](), 0.0
    end_s = (1 + rounds) * (WINDOW_NS + GAP_NS) / 1e9
    while now_s < end_s:
        ids = (len(requests) * 2, len(requests) * 2 + 1)
        requests.append(Request(round(now_s * 1e9), 32, random.randint(4, 6), ids))
        now_s += random.expovariate(RATE_RPS)
    requests.append(Request(round(end_s * 1e9), 32, 4, (len(requests) * 2,) * 2))
    made = (16, fingerprint(requests), "synthetic", "Apache-2.0", "tests")
    return Profile("tiny", tuple(requests), *made)


def space_of(*faults: str) -> str:
    """In this order, then without any. The fault that ignores a knob needs one to ignore, and so
    small a batch keeps a warm-up to 32 requests on the busiest machine."""
    values = ", ".join(f'"{fault}"' for fault in (*faults, "none"))
    return (
        f"[knobs.sim_fault]\nany_flag = true\nvalues = [{values}]\n"
        "[knobs.max_num_seqs]\nvalues = [4]\n"
    )


def spec_of(
    profile: Profile, space: str, rounds: int, launches: int, sampler: str = "grid", seed: int = 0
) -> JobSpec:
    return JobSpec(
        model=MODEL,
        profile_path="tiny.jsonl",
        profile_sha256=profile.sha256,
        engine="vllm",
        hardware=None,
        vllm_command=" ".join(COMMAND),
        baseline=BASELINE,
        space=space,
        sampler=sampler,
        objective=Objective.LATENCY,
        load=1.0,
        launches=launches,
        time_budget_s=None,
        confidence=0.95,
        targets=tuple(parse_target(text) for text in TARGETS),
        accept_precision_change=False,
        seed=seed,
        rounds=rounds,
        windows=1,
    )


def prepared(spec: JobSpec, profile: Profile, place: Place) -> Prepared:
    """As `wiring.prepare` does, with the place's limits."""
    space, fixed = parse_space(spec.space), parse_flags(spec.baseline)
    windows = split(profile, windows=1, rounds=spec.rounds, gap_ns=GAP_NS)
    searcher = OptunaSearcher(
        space,
        spec.model,
        fixed,
        score=lambda result: score(result, spec),
        constraints=excesses_at(spec.load, len(spec.targets)),
        targets=len(spec.targets),
        sampler=spec.sampler,
        seed=spec.seed,
    )
    baseline = Setting.of(spec.model, fixed, knobs=tuple(space.searched()))
    bench = bench_of(profile, place)
    return Prepared(
        spec, profile, space, baseline, bench, SplitPlan(windows, spec.targets), searcher
    )


def bench_of(profile: Profile, place: Place) -> LiveBench:
    limits = place.limits
    engine = VllmEngine(
        COMMAND,
        log_dir=place.logs,
        extra_env={MARK: place.mark, VARIABLE: str(place.device), "PYTHONPATH": str(ROOT)},
        start_timeout_s=limits.start_s,
        stall_timeout_s=limits.start_stall_s,
        stop_grace_s=limits.stop_grace_s,
        release_timeout_s=limits.release_s,
        quiet_timeout_s=limits.quiet_s,
        devices=FileDevices(place.device),
    )
    return LiveBench(
        profile,
        engine,
        MODEL,
        stall_timeout_s=limits.stall_s,
    )


async def run_job(place: Place, *faults: str, launches: int = 8) -> Ended:
    """A new job over the faults, to its advice."""
    profile = tiny(place.rounds)
    spec = spec_of(profile, space_of(*faults), place.rounds, launches)
    ready = prepared(spec, profile, place)
    owner = Owner.this_process()
    with ready.bench.hold("a test"), SqlLedger(place.url, owner=owner) as ledger:
        job = ledger.open_job(spec, ABOUT)
        advice = await run(ready, job, ledger, Quiet())
        return Ended(ledger.job(job.id), tuple(ledger.trials(job.id)), advice)


@dataclass(slots=True)
class Quiet:
    """A watch that keeps what it was told."""

    notes: list[str] = field(default_factory=list)

    def job_opened(self, job: Job, planned_launches: int) -> None: ...

    def trial_opened(self, number: int, phase: Phase, setting: Setting) -> None: ...

    def replaying(self, window: str, multiple: float) -> None: ...

    def trial_closed(self, trial: Trial) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)
