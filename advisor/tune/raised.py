"""A rate that a job raises, compared window by window."""

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
    targets: Sequence[Target],
    spec: JobSpec,
    confidence: float,
) -> Raised | None:
    """Ours against theirs in the job's objective, two-sided at `confidence` (0..1).

    At the job's load. None for headroom and latency, where the targets alone decide; without a
    comparison for cost, where it is decided by what is carried on each GPU.
    """
    if spec.objective in (Objective.HEADROOM, Objective.LATENCY):
        return None
    if spec.objective is Objective.COST:
        return Raised(spec.objective, None)
    arms = [_by_window(arm, scored, targets, spec) for arm in (ours, theirs)]
    shared = sorted(arms[0].keys() & arms[1].keys())
    pairs = [(arms[0][window], arms[1][window]) for window in shared]
    return Raised(spec.objective, compare_rates(pairs, confidence))


def _by_window(
    trials: Sequence[Trial],
    scored: ByTrial,
    targets: Sequence[Target],
    spec: JobSpec,
) -> dict[str, float]:
    return {
        replay.window: _rate(replay, targets, spec.objective)
        for trial in trials
        for replay in scored.get(trial.number, ())
        if replay.multiple == spec.load
    }


def _rate(replay: Scored, targets: Sequence[Target], objective: Objective) -> float:
    """Per second of the window, of which more is better."""
    seconds = replay.curves.window_ns / 1e9
    if objective is Objective.GOODPUT:
        return int(good_requests(replay.curves, targets).sum()) / seconds
    return replay.curves.output_tokens / seconds
