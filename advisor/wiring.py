"""The one composition root: from what was asked to a job that can run."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from platformdirs import user_data_dir

from advisor.advice.advise import advise
from advisor.advice.choose import score
from advisor.bench.live import LiveBench
from advisor.bench.play import Assess
from advisor.bench.simulated import SimBench
from advisor.engine.checkpoint import Checkpoint, read_checkpoint
from advisor.engine.doctor import Diagnosis, examine, has_fp8
from advisor.engine.vllm import VllmEngine
from advisor.profile.load import load_profile
from advisor.profile.shipped import resolve
from advisor.replay.audit import judge_replay
from advisor.search.defaults import allowed_precisions, default_space
from advisor.search.objective import excesses_at
from advisor.search.searcher import OptunaSearcher, sampler_name
from advisor.search.space import Space
from advisor.search.spacefile import parse_space
from advisor.sim.config import resolve as resolve_flags
from advisor.sim.hardware import Hardware, hardware
from advisor.sim.models import model
from advisor.store.database import probe
from advisor.store.ledger import SqlLedger
from advisor.store.location import default_url
from advisor.store.owner import Owner
from advisor.terms.advice import Advice
from advisor.terms.errors import FlagError, InputError, LaunchFailed, SpaceError
from advisor.terms.flags import FlagValue, parse_flags
from advisor.terms.job import Job, JobSpec, Objective, Trial
from advisor.terms.outcome import Reason, ReplayOutcome
from advisor.terms.profile import Profile
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, parse_target
from advisor.terms.traces import Traces
from advisor.tune.case import case_of, judged_again
from advisor.tune.job import Conductor
from advisor.tune.plan import SplitPlan, plan_split
from advisor.tune.ports import Bench
from advisor.tune.trial import TrialRunner
from advisor.tune.watch import Watch


@dataclass(frozen=True, slots=True)
class Asked:
    """What a door was asked for, as it was written there."""

    model: str
    profile: str
    engine: str
    targets: tuple[str, ...]
    hardware: str | None = None
    vllm_command: str = "vllm"
    baseline: str = ""
    space: str | None = None
    sampler: str = "advisor"
    objective: str = "headroom"
    load: float = 1.0
    launches: int = 12
    time_budget_s: float | None = None
    confidence: float = 0.95
    accept_precision_change: bool = False
    seed: int = 0
    gpu_sets: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job that was checked and could start: nothing was written, nothing launched."""

    spec: JobSpec
    profile: Profile
    space: Space
    baseline: Setting
    bench: Bench
    split: SplitPlan
    searcher: OptunaSearcher

    @property
    def most_launches(self) -> int:
        """Search and confirmation together, when neither ends early."""
        spec = self.spec
        return spec.launches + 2 * spec.rounds * spec.windows


def spec_of(asked: Asked) -> JobSpec:
    """Read and check what needs no other thing to be checked against. Raises InputError."""
    if asked.engine not in ENGINES:
        raise InputError(f"engine {asked.engine!r} is unknown; one of {', '.join(ENGINES)}")
    if asked.launches < 1:
        raise InputError(f"launches is {asked.launches}; expected 1 or more")
    if not 0 < asked.load <= MOST_LOAD:
        raise InputError(f"load is {asked.load:g}; expected above 0, at most {MOST_LOAD:g}")
    if not 0.5 < asked.confidence < 1:
        raise InputError(f"confidence is {asked.confidence:g}; expected above 0.5 and below 1")
    if not asked.targets:
        raise InputError("target is missing; give at least one, e.g. --target 'ttft:p95<=1000ms'")
    sampler_name(asked.sampler)
    path = resolve(asked.profile)
    return JobSpec(
        model=asked.model,
        profile_path=str(path.absolute()),
        profile_sha256=load_profile(path).sha256,
        engine=asked.engine,
        hardware=asked.hardware,
        vllm_command=asked.vllm_command,
        baseline=asked.baseline,
        space=_space_text(asked),
        sampler=asked.sampler,
        objective=_objective(asked.objective),
        load=asked.load,
        launches=asked.launches,
        time_budget_s=asked.time_budget_s,
        confidence=asked.confidence,
        targets=_targets(asked.targets),
        accept_precision_change=asked.accept_precision_change,
        seed=asked.seed,
        gpus=_gpus(asked.gpu_sets),
    )


ENGINES = ("sim", "vllm")
#: A multiple above this is a unit error; every window would be repeated that often.
MOST_LOAD = 100.0


def _gpus(text: str | None) -> str | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9A-Za-z-]+(,[0-9A-Za-z-]+)*", text.strip()):
        raise InputError(f"gpu sets {text!r}: expected one set of GPUs, e.g. 0 or 0,1")
    return text.strip()


def _objective(word: str) -> Objective:
    try:
        return Objective(word)
    except ValueError:
        known = ", ".join(Objective)
        raise InputError(f"objective {word!r} is unknown; one of {known}") from None


def _targets(texts: Sequence[str]) -> tuple[Target, ...]:
    targets = tuple(parse_target(text) for text in texts)
    for index, target in enumerate(targets):
        same = (target.metric, target.percentile)
        if any((t.metric, t.percentile) == same for t in targets[:index]):
            raise InputError(f"target {target}: this metric and percentile has a limit already")
    return targets


def _space_text(asked: Asked) -> str:
    if asked.space is None:
        return _default_space(asked).to_toml()
    path = Path(asked.space)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise SpaceError(f"space {asked.space}: cannot be read: {exc}") from exc
    return parse_space(text).to_toml()


def _default_space(asked: Asked) -> Space:
    """The mission's four knobs, quantisation as far as checkpoint and hardware allow."""
    quantization = _checkpoint(asked.engine, asked.model).quantization
    if asked.engine == "sim":
        fp8 = _hardware(asked.hardware).flops_fp8 is not None
    else:
        fp8 = asyncio.run(has_fp8())
    return default_space(precisions=allowed_precisions(quantization, fp8_hardware=fp8))


def prepare(spec: JobSpec) -> Prepared:
    """Check everything against everything, and build the parts. Raises InputError."""
    profile = load_profile(Path(spec.profile_path))
    if profile.sha256 != spec.profile_sha256:
        raise InputError(
            f"profile {spec.profile_path}: it has changed since the job was opened (sha256 "
            f"{profile.sha256[:12]}…, expected {spec.profile_sha256[:12]}…)"
        )
    fixed = parse_flags(spec.baseline)
    space = parse_space(spec.space)
    baseline = Setting.of(spec.model, fixed, knobs=tuple(space.searched()))
    bench = _bench(spec, profile)
    _check_fit(spec, profile, fixed.get("max_model_len"))
    if spec.engine == "sim":
        _check_baseline(baseline, _hardware(spec.hardware))
    split = plan_split(profile, spec)
    searcher = OptunaSearcher(
        space,
        spec.model,
        fixed,
        score=lambda result: score(result, spec),
        constraints=excesses_at(spec.load, len(split.targets)),
        targets=len(split.targets),
        sampler=spec.sampler,
        seed=spec.seed,
    )
    settled = replace(spec, targets=split.targets)
    return Prepared(settled, profile, space, baseline, bench, split, searcher)


def _hardware(name: str | None) -> Hardware:
    if name is None:
        raise InputError("hardware is missing; the simulator needs one, e.g. --hardware h100-sxm")
    return hardware(name)


def _bench(spec: JobSpec, profile: Profile) -> Bench:
    if spec.engine == "sim":
        model(spec.model)  # an unknown one is an error before anything starts
        return SimBench(profile, _hardware(spec.hardware), spec.model, spec.seed)
    visible = {} if spec.gpus is None else {"CUDA_VISIBLE_DEVICES": spec.gpus}
    engine = VllmEngine(spec.vllm_command, log_dir=log_dir(), extra_env=visible)
    return LiveBench(profile, engine, spec.model)


def log_dir() -> Path:
    """Whole logs of all launches, beside the default database."""
    return Path(user_data_dir("advisor")) / "logs"


def _checkpoint(engine: str, name: str) -> Checkpoint:
    """What can be told of the model without a download; the simulator knows all of its own."""
    if engine != "sim":
        return read_checkpoint(name)
    shape = model(name)
    return Checkpoint(shape.vocab, shape.max_position_embeddings, shape.quantization)


def _check_fit(spec: JobSpec, profile: Profile, asked: FlagValue | None) -> None:
    """The longest request must fit the context that the server will have, where that is known."""
    known = _checkpoint(spec.engine, spec.model).max_position_embeddings
    limit = asked if isinstance(asked, int) else known
    if limit is None:
        return
    longest = max(profile.requests, key=lambda r: r.input_length + r.output_length)
    need = longest.input_length + longest.output_length
    if need > limit:
        raise InputError(
            f"max_model_len is {limit} tokens; the profile's longest request needs {need} "
            f"({longest.input_length} in, {longest.output_length} out)"
        )


def _check_baseline(baseline: Setting, where: Hardware) -> None:
    """Flags that vLLM itself would not read are a mistyped baseline, not a result of the job."""
    try:
        resolve_flags(baseline, where)
    except LaunchFailed as exc:
        if exc.failure.reason is Reason.INVALID_SETTING:
            raise FlagError(f"baseline: {exc.failure.message}") from exc


async def run(prepared: Prepared, job: Job, ledger: SqlLedger, watch: Watch) -> Advice:
    """Run or go on with one job to its advice."""
    spec = prepared.spec
    runner = TrialRunner(
        bench=prepared.bench,
        spec=spec,
        windows=prepared.split.windows,
        assess_for=always_valid if spec.engine == "sim" else client_gates,
        watch=watch,
    )
    conductor = Conductor(
        job=job,
        baseline=prepared.baseline,
        windows=prepared.split.windows,
        ledger=ledger,
        searcher=prepared.searcher,
        runner=runner,
        watch=watch,
    )
    return await conductor.run()


def always_valid(_: Sequence[Target]) -> Assess:
    """The simulator has no client that could be late."""
    return lambda _: (ReplayOutcome.VALID, "")


def client_gates(targets: Sequence[Target]) -> Assess:
    """Gates for a real client, set by the tightest limits of the job."""
    ttft_ms = _tightest_ms(targets, (Metric.TTFT, Metric.E2E))
    itl_ms = _tightest_ms(targets, (Metric.ITL, Metric.TOKEN_ITL, Metric.TPOT))

    def assess(traces: Traces) -> tuple[ReplayOutcome, str]:
        return judge_replay(traces, ttft_limit_ms=ttft_ms, itl_limit_ms=itl_ms)

    return assess


def _tightest_ms(targets: Sequence[Target], metrics: tuple[Metric, ...]) -> float | None:
    limits = [t.limit_ns / 1e6 for t in targets if t.metric in metrics and not t.is_relative]
    return min(limits, default=None)


def judge_again(
    ledger: SqlLedger, job_id: str, targets: Sequence[str]
) -> tuple[Job, list[Trial], Advice]:
    """What a job's stored replays say about other targets. Raises InputError for relative ones.

    The error rate keeps the limit that the job had unless one is given. A setting is advised only
    where its confirmation, as it was run, carries the new targets too.
    """
    asked = _targets(targets)
    relative = next((target for target in asked if target.is_relative), None)
    if relative is not None:
        raise InputError(f"target {relative}: what-if needs the limit in ms, s or %")
    job, scored = ledger.job(job_id), ledger.scored(job_id)
    if not any(target.metric is Metric.ERRORS for target in asked):
        asked += tuple(t for t in job.targets if t.metric is Metric.ERRORS)
    job, trials = judged_again(job, ledger.trials(job_id), scored, asked)
    return job, trials, advise(case_of(job, trials, scored, (WHAT_IF_NOTE,)))


WHAT_IF_NOTE = "Judged again from stored replays; settings that were not confirmed stay unproven"


def probe_ledger(url: str | None) -> None:
    """Raise what opening the database would raise, and create nothing."""
    probe(url or default_url())


def open_ledger(url: str | None, *, create: bool = True) -> SqlLedger:
    """The database at `url`, else at $ADVISOR_DB, else in the user's data folder."""
    return SqlLedger(url or default_url(), owner=Owner.this_process(), create=create)


async def examine_machine(vllm_command: str) -> Diagnosis:
    """For `advisor doctor`."""
    return await examine(vllm_command, log_dir())
