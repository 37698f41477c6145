"""What a job raises beside latencies, compared window by window."""

from collections.abc import Mapping, Sequence

from advisor.advice.confirm import Raised
from advisor.measure.compare import compare_rates
from advisor.measure.measure import good_requests
from advisor.terms.job import JobSpec, Objective, Trial
from advisor.terms.target import Target
from advisor.tune.ports import Scored

#: By trial number, every replay that a verdict may rest on.
ByTrial = Mapping[int, Sequence[Scored]]


def raised(
    ours: Sequence[Trial],
    theirs: Sequence[Trial],
    scored: ByTrial,
    claim: float,
    targets: Sequence[Target],
    spec: JobSpec,
    confidence: float,
) -> Raised | None:
    """Ours against theirs in the job's objective, two-sided at `confidence` (0..1).

    Throughput and goodput are those at the job's load, cost is that at the claimed one. None for
    headroom and latency, where the targets alone decide.
    """
    if spec.objective in (Objective.HEADROOM, Objective.LATENCY):
        return None
    multiple = claim if spec.objective is Objective.COST else spec.load
    arms = [_by_window(arm, scored, multiple, targets, spec.objective) for arm in (ours, theirs)]
    shared = sorted(arms[0].keys() & arms[1].keys())
    pairs = [(arms[0][window], arms[1][window]) for window in shared]
    return Raised(spec.objective, compare_rates(pairs, confidence))


def _by_window(
    trials: Sequence[Trial],
    scored: ByTrial,
    multiple: float,
    targets: Sequence[Target],
    objective: Objective,
) -> dict[str, float]:
    return {
        replay.window: _rate(replay, trial.setting.gpus, targets, objective)
        for trial in trials
        for replay in scored.get(trial.number, ())
        if replay.multiple == multiple
    }


def _rate(replay: Scored, gpus: int, targets: Sequence[Target], objective: Objective) -> float:
    """Per second of the window, of which more is better."""
    seconds = replay.curves.window_ns / 1e9
    match objective:
        case Objective.GOODPUT:
            return int(good_requests(replay.curves, targets).sum()) / seconds
        case Objective.COST:
            return replay.curves.total_tokens / gpus / seconds
        case _:
            return replay.curves.output_tokens / seconds
