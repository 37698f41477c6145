"""Sentences about the proof itself: what it withstood, how far the search was off, what lacks."""

import math
from collections.abc import Sequence

from advisor.advice.confirm import (
    WORTH,
    Arm,
    Round,
    better,
    control_gain,
    died,
    meets,
    misses,
    that_count,
)
from advisor.advice.explain import percent
from advisor.measure.settle import load_factor, pairs_needed
from advisor.terms.job import Soak, Trial
from advisor.terms.measurement import Judgement, Measurement
from advisor.terms.target import Verdict


def died_lines(rounds: Sequence[Round]) -> list[str]:
    """A line for each finalist that its soak kept from being recommended."""
    arms = [(each.number, each.finalist) for each in rounds if each.finalist is not None]
    return [
        f"The finalist of round {number + 1} did not survive {arm.soak.requests} of the "
        f"profile's longest requests at once: {arm.soak.trouble}; it is not recommended"
        for number, arm in arms
        if arm.soak is not None and not arm.soak.survived
    ]


def control_line(rounds: Sequence[Round]) -> str | None:
    """What a control arm shows that gained nothing; None where none was asked for."""
    arms = [each.control.finalist for each in rounds if each.control and each.control.finalist]
    if not arms or control_gain(rounds) is not None:
        return None
    failed = sum(arm.failures for arm in arms)
    if failed:
        return f"{failed} launches of the control arm failed, so it shows nothing in their rounds"
    return "The control arm, the current setting again, shows no gain over itself"


def why_open(rounds: Sequence[Round], round_: Round, finalist: Arm) -> str:
    """What the finalist of one of these rounds lacks to be recommended."""
    if died(rounds, finalist):
        return "does not survive the profile's longest requests at once"
    if finalist.soak is None and better(round_) is not None:
        return "was not tried with the profile's longest requests at once, so it is not proven"
    if not meets(finalist.at_load):
        why = "is not proven to meet the targets on held-out load"
        return f"{why}; a longer profile would give more windows"
    why = "meets the targets on held-out load, but is not proven better than the current one"
    if misses(round_.baseline.at_load):
        return f"{why}: that misses them, but not as clearly on each pair of launches"
    return f"{why}; a longer profile would give more windows"


def survived_line(soak: Soak) -> str:
    """What the winner withstood."""
    line = f"It survived {soak.requests} of the profile's longest requests at once"
    if soak.unfinished:
        line += f"; {soak.unfinished} of them were not finished when the time was over"
    return line


def drop_line(searched: Trial | None, round_: Round) -> str | None:
    """How optimistic the search was: its figures of the finalist beside those of held-out load."""
    finalist = round_.finalist
    if searched is None or finalist is None:
        return None
    parts = []
    for held_out in (finalist.at_load, finalist.at_claim):
        seen = None if held_out is None else searched.result.at(held_out.multiple)
        if seen is not None and held_out is not None:
            parts.append(_dropped(seen, held_out, is_claim=held_out.multiple == round_.claim))
    if not parts:
        return None
    return f"From the search to held-out load, shares over the limit: {'; '.join(parts)}"


def _dropped(seen: Measurement, held_out: Measurement, *, is_claim: bool) -> str:
    theirs = {judgement.target: judgement for judgement in held_out.judgements}
    pairs = [(j, theirs[j.target]) for j in seen.judgements if j.target in theirs]
    shares = [f"{_name(ours)} {_share(ours)} -> {_share(found)}" for ours, found in pairs]
    claim = f" (claimed: {seen.verdict} -> {held_out.verdict})" if is_claim else ""
    return f"at {seen.multiple:g}x{claim} {', '.join(shares)}"


def _name(judgement: Judgement) -> str:
    target = judgement.target
    if target.percentile is None:
        return "errors"
    return f"{target.metric.upper()} p{target.percentile:g}"


def _share(judgement: Judgement) -> str:
    return "unknown" if judgement.share_over is None else percent(judgement.share_over)


def more_load_line(measurement: Measurement | None) -> str | None:
    """How much more load would decide what is open in it; None where no figure can be told."""
    judgements = measurement.judgements if measurement else ()
    open_ = [j for j in judgements if j.verdict is Verdict.UNDECIDED]
    factors = [load_factor(judgement) for judgement in open_]
    known = [factor for factor in factors if factor is not None]
    if measurement is None or not known or len(known) < len(factors):
        return None
    factor = max(known)
    windows = math.ceil(round(factor * measurement.replays, 6))
    return (
        f"Estimated, if shares stay as they are: to decide {' and '.join(map(_name, open_))} at "
        f"{measurement.multiple:g}x takes at least {_up(factor)} times the load, so a profile "
        f"that much longer, or {windows} windows like these {measurement.replays}"
    )


def _up(factor: float) -> str:
    return f"{math.ceil(10 * factor) / 10:.2g}" if factor < 10 else f"{math.ceil(factor)}"


def more_proof_line(round_: Round) -> str | None:
    """How much more would show that a finalist that meets is better; None where nothing can be
    told of it."""
    finalist, baseline = round_.finalist, round_.baseline
    if finalist is None or (finalist.soak is not None and not finalist.soak.survived):
        return None  # no load would change it
    if not meets(finalist.at_load):
        return more_load_line(finalist.at_load)
    pairs = _pairs(round_)
    if pairs is not None:
        return (
            "Estimated, if ratio and spread stay as they are: it takes at most "
            f"{pairs} pairs of launches to show the difference to the current setting"
        )
    claimed = baseline.at_claim if meets(finalist.at_claim) else finalist.at_claim
    return more_load_line(claimed)


def _pairs(round_: Round) -> int | None:
    """Of the comparison that needs the fewest, among those in the finalist's favour."""
    if round_.raised is None:
        found = [(c.ratio, c.upper_ratio, c.pairs) for c in that_count(round_) if c.ratio < 1]
    else:
        rate = round_.raised.comparison
        better = rate is not None and rate.ratio > WORTH
        # by how much it is above what is worth a change
        found = (
            [(rate.ratio / WORTH, rate.lower_ratio / WORTH, rate.pairs)] if rate and better else []
        )
    needed = [pairs for each in found if (pairs := pairs_needed(*each)) is not None]
    return min(needed, default=None)
