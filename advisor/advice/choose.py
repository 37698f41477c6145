"""Which settings deserve a confirmation, in which order."""

from collections.abc import Sequence

from advisor.advice.memory import is_at_edge
from advisor.measure.headroom import worst_excess
from advisor.terms.job import JobSpec, Objective, Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict

#: Scores that differ by less than this share are alike: launches of one setting differ by as much.
AS_GOOD = 0.03


def score(result: TrialResult, spec: JobSpec) -> float | None:
    """The objective as a number to maximise; None when the trial has none."""
    at_load = result.at(spec.load)
    if result.state is not TrialState.MEASURED or at_load is None:
        return None
    match spec.objective:
        case Objective.HEADROOM:
            return None if result.headroom is None else result.headroom.estimate
        case Objective.GOODPUT:
            return at_load.goodput_rps
        case Objective.THROUGHPUT:
            return at_load.output_tokens_per_s
        case Objective.LATENCY:
            # the target nearest to its limit, or furthest over it, is the one that matters
            return -worst_excess(at_load)
        case Objective.COST:
            # the tokens of a load multiple are the profile's, whatever the setting
            gpus = result.gpus or 1
            return None if result.headroom is None else result.headroom.estimate / gpus


def is_eligible(setting: Setting, baseline: Setting, accept_precision_change: bool) -> bool:
    """Whether it may be advised at all: fewer bits change the answers, not only the speed."""
    return accept_precision_change or setting.precision() == baseline.precision()


def candidates(trials: Sequence[Trial], spec: JobSpec, baseline: Setting) -> list[Trial]:
    """Measured, eligible, and not proven to miss at the job's load; best first.

    Of those that are as good as the best one, as far as a launch can tell, one with a margin of
    memory goes first, then the smallest change against the baseline, then the earlier trial.
    """
    found = [
        trial
        for trial in trials
        if trial.phase in (Phase.BASELINE, Phase.SEARCH)
        and trial.result.state is TrialState.MEASURED
        and is_eligible(trial.setting, baseline, spec.accept_precision_change)
        and _verdict(trial.result, spec.load) in (Verdict.MET, Verdict.UNDECIDED)
    ]
    ranked = sorted(found, key=lambda trial: _rank(trial, spec, baseline))
    as_good = [trial for trial in ranked if _is_as_good(trial, ranked[0], spec)]
    as_good.sort(
        key=lambda trial: (
            is_at_edge(trial.setting, trials),
            len(diff(trial.setting, baseline)),
        )
    )
    return as_good + [trial for trial in ranked if trial not in as_good]


def _is_as_good(trial: Trial, best: Trial, spec: JobSpec) -> bool:
    """Whether it meets the targets and carries what the best one was seen to, and its score is no
    lower than another launch of the best one might give."""
    value, most = score(trial.result, spec), score(best.result, spec)
    if trial.number == best.number or value is None or most is None:
        return trial.number == best.number
    # the score of a latency is a logarithm already
    less = AS_GOOD if spec.objective is Objective.LATENCY else AS_GOOD * abs(most)
    if _meets(best, spec) and not _meets(trial, spec):
        return False
    return _proven(trial, spec) >= _proven(best, spec) and value >= most - less


def _meets(trial: Trial, spec: JobSpec) -> bool:
    return _verdict(trial.result, spec.load) is Verdict.MET


def _proven(trial: Trial, spec: JobSpec) -> float:
    """The multiple that it was seen to carry, for cost on each GPU; 0 for none, or where another
    thing is raised."""
    headroom = trial.result.headroom
    if headroom is None or headroom.low is None:
        return 0.0
    match spec.objective:
        case Objective.HEADROOM:
            return round(headroom.low, 6)
        case Objective.COST:
            return round(headroom.low / (trial.result.gpus or 1), 6)
        case _:
            return 0.0


def _verdict(result: TrialResult, load: float) -> Verdict | None:
    measurement = result.at(load)
    return None if measurement is None else measurement.verdict


def _rank(trial: Trial, spec: JobSpec, baseline: Setting) -> tuple[bool, float, float, int, int]:
    value = score(trial.result, spec)
    return (
        not _meets(trial, spec),
        -_proven(trial, spec),
        -(value if value is not None else float("-inf")),
        len(diff(trial.setting, baseline)),
        trial.number,
    )


def diff(setting: Setting, baseline: Setting) -> tuple[str, ...]:
    """`--flag old -> new` for everything that differs."""
    new, old = dict(setting.flags), dict(baseline.flags)
    lines = []
    if setting.model != baseline.model:
        lines.append(f"model {baseline.model} -> {setting.model}")
    for name in sorted(new.keys() | old.keys()):
        if new.get(name) != old.get(name):
            before, after = (_shown(values.get(name)) for values in (old, new))
            lines.append(f"--{name.replace('_', '-')} {before} -> {after}")
    return tuple(lines)


def _shown(value: object) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def ties_with_baseline(leader: Trial, baseline: Trial | None, spec: JobSpec) -> bool:
    """Whether the search already shows no gain: the current setting then stays."""
    if baseline is None or leader.number == baseline.number:
        return baseline is not None
    ours, theirs = _proven(leader, spec), _proven(baseline, spec)
    return 0 < ours <= theirs


def finalists(trials: Sequence[Trial], spec: JobSpec, baseline: Trial | None) -> list[Trial]:
    """At most `spec.rounds` settings to confirm, best first; empty when none can gain."""
    if not trials:
        return []
    reference = baseline.setting if baseline is not None else trials[0].setting
    found = []
    for trial in candidates(trials, spec, reference):
        if ties_with_baseline(trial, baseline, spec):
            break
        found.append(trial)
    return found[: spec.rounds]


def effective(trial: Trial) -> Setting:
    """The setting with every knob explicit, as the server said it runs.

    A baseline leaves knobs to vLLM's defaults, which differ by GPU and version: what is compared,
    confirmed and advised is always the value in force.
    """
    resolved = dict(trial.result.launch.resolved) if trial.result.launch else {}
    setting = trial.setting
    explicit = {name: resolved[name] for name in setting.knobs if name in resolved}
    return Setting.of(
        setting.model, {**explicit, **dict(setting.flags)}, setting.knobs, setting.variant
    )
