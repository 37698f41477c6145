"""What the confirmation on held-out load proves."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.measurement import Comparison, Measurement
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Verdict


@dataclass(frozen=True, slots=True)
class Arm:
    """One setting in one round, its repeats pooled and judged at the round's own level."""

    setting: Setting
    #: None when a launch has no replay that counts: it never came up, or they were void
    at_load: Measurement | None
    #: at the multiple the finalist claims; None when that is the job's load itself
    at_claim: Measurement | None
    #: launches that did not serve to their end
    failures: int
    #: every launch was ended by the setting's own fault, at the load or above it
    cannot_run: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """A finalist and the baseline on the same fresh windows, interleaved, fresh launches."""

    number: int
    #: None when only the baseline was to be proven
    finalist: Arm | None
    baseline: Arm
    #: the load multiple that the finalist claims to carry
    claim: float
    #: finalist against baseline, for each time target that has enough pairs
    comparisons: tuple[Comparison, ...]


def meets(measurement: Measurement | None) -> bool:
    return measurement is not None and measurement.verdict is Verdict.MET


def misses(measurement: Measurement | None) -> bool:
    return measurement is not None and measurement.verdict is Verdict.MISSED


def gain(round_: Round) -> str | None:
    """Why the finalist of this round is proven better than the baseline; None when it is not.

    The finalist must meet every target at the job's load first. Then either the baseline
    provably misses there, or provably misses at the multiple that the finalist provably carries,
    or the paired interval shows the finalist better on a target that the baseline does not meet.
    A baseline that cannot run misses; one whose launches failed by no fault of its own does not.
    """
    finalist, baseline = round_.finalist, round_.baseline
    if finalist is None or finalist.failures or not meets(finalist.at_load):
        return None
    if baseline.cannot_run and baseline.at_load is None:
        return "it meets the targets at the job's load, where the baseline does not run"
    if misses(baseline.at_load):
        return "it meets the targets at the job's load, where the baseline misses them"
    if meets(finalist.at_claim):
        if misses(baseline.at_claim):
            return f"it carries {round_.claim:g}x the recorded load, where the baseline misses"
        if baseline.cannot_run:
            return f"it carries {round_.claim:g}x the recorded load, where the baseline ends"
    return _paired_gain(round_)


def _paired_gain(round_: Round) -> str | None:
    at_load = round_.baseline.at_load
    if at_load is None:
        return None
    unmet = {
        (j.target.metric, j.target.percentile)
        for j in at_load.judgements
        if j.verdict is not Verdict.MET
    }
    for comparison in round_.comparisons:
        compared = (comparison.metric, comparison.percentile)
        if compared in unmet and comparison.upper_ratio < 1:
            return (
                f"{comparison.metric.upper()} p{comparison.percentile:g} is "
                f"{comparison.lower_ratio:.2f} to {comparison.upper_ratio:.2f} times the "
                f"baseline's over {comparison.pairs} pairs, a target the baseline does not meet"
            )
    return None


def time_targets(targets: Sequence[Target]) -> list[Target]:
    """Those with a percentile of a latency, so that two settings can be compared by it."""
    return [target for target in targets if target.metric is not Metric.ERRORS]
