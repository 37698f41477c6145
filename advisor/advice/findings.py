"""Facts that may surprise, one sentence each; of what was not measured nothing is said."""

from collections.abc import Sequence

from advisor.advice.background import Background
from advisor.advice.effects import ALIKE, KnobEffect, Pair
from advisor.advice.explain import percent
from advisor.advice.spent import total
from advisor.terms.flags import FlagValue
from advisor.terms.job import JobSpec, Trial
from advisor.terms.measurement import Judgement, Noise
from advisor.terms.target import Metric

#: A noise band wider than this can hide a difference that matters: then 'no effect' means nothing.
_WIDEST = 1.25
#: With fewer pairs a knob without effect may be chance.
_LEAST_PAIRS = 2
#: A KV cache that was never fuller than this has room.
_ROOMY = 0.8
#: Fewer hits than this share of the tokens asked for are as good as none.
_FEW_HITS = 0.01


def ignored_line(trials: Sequence[Trial]) -> str | None:
    """What servers did not run as asked."""
    by_text: dict[str, list[int]] = {}
    for trial in trials:
        for text in trial.result.launch.ignored if trial.result.launch else ():
            by_text.setdefault(text, []).append(trial.number)
    if not by_text:
        return None
    listed = "; ".join(
        f"{text} ({', '.join(f'trial {number}' for number in numbers)})"
        for text, numbers in by_text.items()
    )
    return f"A flag was not run as asked: {listed}"


def no_effect_line(
    effects: Sequence[KnobEffect], trials: Sequence[Trial], noise: Sequence[Noise], spec: JobSpec
) -> str | None:
    """Knobs that several pairs of trials differ in alone, and no pair by more than noise."""
    by_number = {trial.number: trial for trial in trials}
    found = []
    for effect in effects:
        if not effect.is_alike or len(effect.pairs) < _LEAST_PAIRS:
            continue
        moved = [_moved(pair, by_number, noise, spec) for pair in effect.pairs]
        if all(each is not None for each in moved):
            most = max(effect.pairs[0].factor, *(each for each in moved if each is not None))
            found.append(
                f"{flag(effect.knob)} ({len(effect.pairs)} pairs, {100 * (most - 1):.1f} %)"
            )
    if not found:
        return None
    return (
        f"Without effect here: {', '.join(found)}: trials that differ in it alone differ by no "
        f"more than that in {spec.objective} and in every latency with a target, as launches of "
        "one setting do"
    )


def edge_line(
    about: Trial, effects: Sequence[KnobEffect], background: Background, spec: JobSpec
) -> str | None:
    """Knobs whose value is the last one of the Space, where the objective still rises to it."""
    ranges, found = dict(background.ranges), []
    for effect in effects:
        values, value = ranges.get(effect.knob), about.setting.get(effect.knob)
        if values is None or value is None or value not in (values[0], values[-1]):
            continue
        towards = _towards(effect, value)
        if towards is not None:
            end = "smallest" if value == values[0] else "largest"
            found.append(
                f"{flag(effect.knob)} {value} is the {end} value of the Space and, by "
                f"{spec.objective}, {towards.factor:.2f} times as good as {towards.worse}"
            )
    return f"{'; '.join(found)}: beyond it nothing was tried" if found else None


def seats_line(about: Trial, background: Background, spec: JobSpec) -> str | None:
    """Requests that waited because no more may run at once."""
    launch = about.result.launch
    limit = dict(launch.resolved).get("max_num_seqs") if launch else None
    limit = about.setting.get("max_num_seqs") if limit is None else limit
    if not isinstance(limit, int):
        return None
    waited = [
        replay.facts.waiting_max
        for replay in background.of(about.setting, spec.load)
        if replay.facts.running_max is not None
        and replay.facts.running_max >= limit
        and replay.facts.waiting_max
    ]
    if not waited:
        return None
    return (
        f"At {spec.load:g}x as many requests ran as --max-num-seqs {limit} lets, while up to "
        f"{max(waited):.0f} waited"
    )


def kv_cache_line(background: Background) -> str | None:
    """Where no replay came near to the KV cache's end, more of it cannot help."""
    used = [replay.facts.kv_cache_usage_max for replay in background.served]
    known = [each for each in used if each is not None]
    # a gauge is read now and then, a preemption is counted: it shows a full cache for certain
    filled = any(replay.facts.preemptions for replay in background.served)
    if filled or not known or len(known) < len(used) or max(known) >= _ROOMY:
        return None
    hits = total(background.served, "prefix_cache_hits")
    but = ", but for keeping more prefixes" if hits else ""
    return (
        f"The KV cache was never more than {percent(max(known))} full in any of the "
        f"{len(known)} replays, so --gpu-memory-utilization cannot matter at these loads{but}"
    )


def prefix_line(about: Trial, background: Background) -> str | None:
    """Prefix caching that found next to nothing."""
    replays = [replay for replay in background.served if replay.setting == about.setting]
    asked, hits = (total(replays, f"prefix_cache_{each}") for each in ("queries", "hits"))
    if not asked or hits is None or hits >= _FEW_HITS * asked:
        return None
    return (
        f"Prefix caching found {percent(hits / asked)} of {asked:.0f} prompt tokens in its cache: "
        "this load hardly repeats a prompt's beginning while it is kept"
    )


def flag(knob: str) -> str:
    """As it is typed; the checkpoint has no flag."""
    return knob if knob == "model" else f"--{knob.replace('_', '-')}"


def _towards(effect: KnobEffect, value: FlagValue) -> Pair | None:
    """The pair that shows most clearly that the value is better; None where one shows that
    another is."""
    clear = [pair for pair in effect.pairs if pair.factor > ALIKE]
    if any(pair.worse == value for pair in clear):
        return None
    return next((pair for pair in clear if pair.better == value), None)


def _moved(
    pair: Pair, trials: dict[int, Trial], noise: Sequence[Noise], spec: JobSpec
) -> float | None:
    """The largest ratio of a target's estimates at the job's load between the two, at least 1;
    None where one is beyond noise, or not known."""
    one, other = (trials[number].result.at(spec.load) for number in pair.trials)
    if one is None or other is None or one.stopped or other.stopped:
        return None
    ratios = [1.0]
    for left, right in zip(one.judgements, other.judgements, strict=True):
        ratio = _ratio(left, right)
        if ratio is None or ratio > _band(left, noise):
            return None
        ratios.append(ratio)
    return max(ratios)


def _ratio(left: Judgement, right: Judgement) -> float | None:
    """Of the larger estimate to the smaller one; None without a finite one."""
    if left.estimate == right.estimate:
        return None if left.estimate is None else 1.0
    if not left.estimate or not right.estimate:
        return None
    return max(left.estimate / right.estimate, right.estimate / left.estimate)


def _band(judgement: Judgement, noise: Sequence[Noise]) -> float:
    """Ratios up to this are noise."""
    target = judgement.target
    if target.metric is Metric.ERRORS:
        return 1.0
    name = (target.metric, target.percentile)
    seen = next((n.factor for n in noise if (n.metric, n.percentile) == name), ALIKE)
    return min(max(seen, ALIKE), _WIDEST)
