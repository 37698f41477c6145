"""What the confirmation on held-out load proves."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.terms.job import Objective, Soak
from advisor.terms.measurement import Comparison, Measurement, RateComparison
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Verdict

#: A rate that is higher by less is no reason to change anything, however surely it is higher.
WORTH = 1.01


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
    #: of the last launch; None where it did not come to it
    soak: Soak | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """What a job raises that is no latency, held against the baseline's window by window."""

    objective: Objective
    #: of tokens/s or good requests/s; None without three pairs of them, and for cost, which is
    #: a matter of what is carried
    comparison: RateComparison | None


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
    #: whether each window by itself shows the finalist within its limits and the baseline over
    #: one (`tune.apart`), at the job's load and at what each of them would have to carry
    apart_at_load: bool
    apart_at_claim: bool
    #: None where headroom or latency is raised: then the targets alone decide
    raised: Raised | None = None
    #: the baseline, launched once more, in the finalist's place; None where there was no control
    control: "Round | None" = None


def meets(measurement: Measurement | None) -> bool:
    return measurement is not None and measurement.verdict is Verdict.MET


def misses(measurement: Measurement | None) -> bool:
    return measurement is not None and measurement.verdict is Verdict.MISSED


def died(rounds: Sequence[Round], arm: Arm) -> bool:
    """Whether its setting did not survive a soak, in one of these rounds."""
    arms = (each.finalist for each in rounds if each.finalist is not None)
    soaks = (each.soak for each in arms if each.setting == arm.setting)
    return any(soak is not None and not soak.survived for soak in soaks)


def gain(round_: Round) -> str | None:
    """Why the finalist of this round is proven better than the baseline; None when it is not.

    It has to be better on the windows, and to survive its soak.
    """
    soak = None if round_.finalist is None else round_.finalist.soak
    return better(round_) if soak is not None and soak.survived else None


def better(round_: Round) -> str | None:
    """Why the finalist is better on the windows of this round; None when that is not proven.

    The finalist must meet every target at the job's load first. It is better where the baseline
    provably misses there, as each window shows by itself: bounds tell how windows differ, not
    how launches do, and of two equal settings one may have good ones. Else, where a rate is
    raised, by that; where it is not, when the baseline so misses at the multiple that the finalist
    provably carries, or when the paired interval shows the finalist better on a target that the
    baseline does not meet.
    A baseline that cannot run misses; one whose launches failed by no fault of its own does not.
    """
    finalist, baseline = round_.finalist, round_.baseline
    if finalist is None or finalist.failures or not meets(finalist.at_load):
        return None
    if baseline.cannot_run and baseline.at_load is None:
        return "it meets the targets at the job's load, where the baseline does not run"
    if misses(baseline.at_load) and round_.apart_at_load:
        return "it meets the targets at the job's load, where the baseline misses them"
    if round_.raised is None:
        return _carries_more(round_, finalist) or _paired_gain(round_)
    found = _raised_gain(round_, finalist, round_.raised)
    # a miss that some window does not show may still be shown by a latency, pair by pair
    return found or (_paired_gain(round_) if misses(baseline.at_load) else None)


def _carries_more(round_: Round, finalist: Arm) -> str | None:
    """Where each of them has as many GPUs, more load; else more on each GPU."""
    baseline, ours = round_.baseline, finalist.setting.gpus
    theirs, at_claim = baseline.setting.gpus, baseline.at_claim
    if not meets(finalist.at_claim or finalist.at_load):
        return None
    fails = "misses" if misses(at_claim) and round_.apart_at_claim else None
    if fails is None and baseline.cannot_run:
        fails = "ends"
    if fails is None:
        return None
    carried = f"it carries {round_.claim:g}x the recorded load"
    if round_.raised is None or ours == theirs:
        return f"{carried}, where the baseline {fails}"
    at = "" if at_claim is None else f" at {at_claim.multiple:g}x"
    return f"{carried} on {_gpus(ours)}, where the baseline {fails}{at} on {_gpus(theirs)}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _raised_gain(round_: Round, finalist: Arm, raised: Raised) -> str | None:
    """By the interval of the rate; cost by what is carried on each GPU."""
    if raised.objective is Objective.COST:
        return _carries_more(round_, finalist)
    found = raised.comparison
    if found is None or found.lower_ratio <= WORTH:
        return None
    rate = "good requests/s" if raised.objective is Objective.GOODPUT else "output tokens/s"
    return (
        f"its {rate} are {found.lower_ratio:.2f} to {found.upper_ratio:.2f} times the baseline's "
        f"over {found.pairs} pairs, within the targets"
    )


def control_gain(rounds: Sequence[Round]) -> str | None:
    """Why the baseline would be called better than itself, in the first round where it would.

    Then the rule takes noise or drift of this machine for a gain, so no gain can be believed.
    """
    found = (better(each.control) for each in rounds if each.control is not None)
    return next((why for why in found if why is not None), None)


def _paired_gain(round_: Round) -> str | None:
    for comparison in that_count(round_):
        if comparison.upper_ratio < 1:
            return (
                f"{comparison.metric.upper()} p{comparison.percentile:g} is "
                f"{comparison.lower_ratio:.2f} to {comparison.upper_ratio:.2f} times the "
                f"baseline's over {comparison.pairs} pairs, a target that the baseline is not "
                "proven to meet"
            )
    return None


def that_count(round_: Round) -> list[Comparison]:
    """The comparisons by which something can be gained: of targets that the baseline is not proven
    to meet."""
    at_load = round_.baseline.at_load
    judgements = at_load.judgements if at_load else ()
    unmet = {
        (j.target.metric, j.target.percentile) for j in judgements if j.verdict is not Verdict.MET
    }
    return [each for each in round_.comparisons if (each.metric, each.percentile) in unmet]


def time_targets(targets: Sequence[Target]) -> list[Target]:
    """Those with a percentile of a latency, so that two settings can be compared by it."""
    return [target for target in targets if target.metric is not Metric.ERRORS]
