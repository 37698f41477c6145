"""From a job's definition to one that was checked and could start."""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.advice.choose import is_eligible, score
from advisor.bench.engines import engines_of
from advisor.bench.live import LiveBench
from advisor.bench.simulated import SimBench
from advisor.profile.load import load_profile
from advisor.replay.audit import TEXT_DRIFT_SHARE
from advisor.search.objective import Score, excesses_at
from advisor.search.searcher import OptunaSearcher
from advisor.search.space import Space
from advisor.search.spacefile import parse_space
from advisor.sim.config import resolve
from advisor.sim.hardware import Hardware
from advisor.sim.models import model
from advisor.terms.errors import FlagError, InputError, LaunchFailed
from advisor.terms.flags import FlagValue, parse_flags
from advisor.terms.job import Api, JobSpec, Objective, TrialResult
from advisor.terms.outcome import Reason
from advisor.terms.profile import Profile
from advisor.terms.setting import Setting
from advisor.tune.plan import SplitPlan, plan_split
from advisor.tune.ports import Bench
from advisor.wiring.gpus import check_set_size
from advisor.wiring.machine import log_dir
from advisor.wiring.spec import checkpoint_of, simulated_hardware


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
    #: of each further set of GPUs
    beside: tuple[Bench, ...] = ()

    @property
    def benches(self) -> tuple[Bench, ...]:
        """One for each set of GPUs."""
        return (self.bench, *self.beside)

    @contextmanager
    def hold(self, what: str) -> Iterator[None]:
        """Keep all that is measured on for this process alone, all sets or none.

        Raises Blocked and InputError as `Bench.hold`.
        """
        with ExitStack() as held:
            for bench in self.benches:
                held.enter_context(bench.hold(what))
            yield

    @property
    def most_launches(self) -> int:
        """Search and confirmation together, when neither ends early."""
        spec = self.spec
        arms = 3 if spec.control_arm else 2
        return spec.launches + arms * spec.rounds * spec.windows


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
    check_set_size(spec, (baseline, *space.settings(spec.model, fixed)))
    bench, *beside = _benches(spec, profile, fixed, space)
    _check_fit(spec, profile, fixed.get("max_model_len"))
    if spec.engine == "sim":
        _check_baseline(baseline, simulated_hardware(spec.hardware))
    split = plan_split(profile, spec)
    searcher = OptunaSearcher(
        space,
        spec.model,
        fixed,
        score=_score_of(spec, baseline),
        constraints=excesses_at(spec.load, len(split.targets)),
        targets=len(split.targets),
        sampler=spec.sampler,
        seed=spec.seed,
        load=spec.load if spec.objective in (Objective.HEADROOM, Objective.COST) else None,
        gpus=baseline.gpus if spec.objective is Objective.COST else None,
        replay_s=_replay_s(split, spec),
        may_be_advised=lambda s: is_eligible(s, baseline, spec.accept_precision_change),
    )
    settled = replace(spec, targets=split.targets)
    return Prepared(settled, profile, space, baseline, bench, split, searcher, tuple(beside))


def _score_of(spec: JobSpec, baseline: Setting) -> Score:
    """The objective. For cost, which ranks by load on each GPU, it is the load that as many GPUs
    as the baseline's would carry: a forecast of headroom can then be held against it."""
    gpus = baseline.gpus if spec.objective is Objective.COST else 1

    def scored(result: TrialResult) -> float | None:
        found = score(result, spec)
        return None if found is None else gpus * found

    return scored


def _replay_s(split: SplitPlan, spec: JobSpec) -> float:
    """About what the replays of one launch take: its windows, at a few multiples."""
    window_s = (split.windows.search[0].duration_ns + split.windows.gap_ns) / 1e9
    return window_s * spec.windows * math.log2(1 + len(spec.multiples))


def _benches(
    spec: JobSpec, profile: Profile, fixed: Mapping[str, FlagValue], space: Space
) -> list[Bench]:
    if spec.engine == "sim":
        # an unknown one is an error before anything starts
        for name in {spec.model, *(v.model for v in space.variants if v.model)}:
            model(name)
        return [SimBench(profile, simulated_hardware(spec.hardware), spec.model, spec.seed)]
    searched = sorted(space.searched())
    flags = (*(("baseline", name) for name in fixed), *(("space", name) for name in searched))
    return [
        LiveBench(profile, engine, spec.model, flags, api=spec.api, load=spec.load)
        for engine in engines_of(spec, log_dir())
    ]


def _check_fit(spec: JobSpec, profile: Profile, asked: FlagValue | None) -> None:
    """The longest request must fit the context that the server will have, where that is known."""
    known = checkpoint_of(spec.engine, spec.model).max_position_embeddings
    limit = asked if isinstance(asked, int) else known
    if limit is None:
        return
    longest = max(profile.requests, key=lambda r: r.input_length + r.output_length)
    need = longest.input_length + longest.output_length
    drift = ""
    if spec.api is Api.CHAT:
        need += math.ceil(TEXT_DRIFT_SHARE * longest.input_length)
        drift = ", and some tokens for a text of about that length"
    if need > limit:
        raise InputError(
            f"max_model_len is {limit} tokens; the profile's longest request needs {need} "
            f"({longest.input_length} in, {longest.output_length} out{drift})"
        )


def _check_baseline(baseline: Setting, where: Hardware) -> None:
    """Flags that vLLM itself would not read are a mistyped baseline, not a result of the job."""
    try:
        resolve(baseline, where)
    except LaunchFailed as exc:
        if exc.failure.reason is Reason.INVALID_SETTING:
            raise FlagError(f"baseline: {exc.failure.message}") from exc
