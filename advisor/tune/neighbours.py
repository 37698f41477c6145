"""Do servers on other GPU sets disturb one another? The baseline alone, and beside loaded ones.

They share the machine's cores, memory bandwidth, PCIe and this program's load generator, so what
is measured side by side may be slower than what is measured alone.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from advisor.advice.choose import AS_GOOD
from advisor.advice.confirm import time_targets
from advisor.bench.play import salt
from advisor.measure.compare import compare
from advisor.measure.curves import Curves, pool
from advisor.measure.looks import level
from advisor.measure.tail import nearest_rank
from advisor.terms.job import JobSpec, Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Verdict
from advisor.tune.attempts import is_settled, over
from advisor.tune.budget import Budget
from advisor.tune.case import baseline_of
from advisor.tune.lanes import Lanes
from advisor.tune.ports import Scored
from advisor.tune.trial import Keep, TrialRunner

#: Launches that must be left: the check's own, and two that could then run side by side.
_LEAST_LAUNCHES = 3
#: An interval is slower only beyond what launches of one setting differ by when they are alone.
_ALIKE = 1 + AS_GOOD
#: Without an interval: ratios beyond this are no chance.
_MOST_RATIO = 1.1
#: On every single window: ratios beyond this are none either.
_MOST_EACH = 1.2

_ALONE = "The search ran on the first GPU set alone"


def is_due(trials: Sequence[Trial], budget: Budget) -> bool:
    """Whether the baseline is to be launched beside loaded neighbours (again)."""
    baseline = baseline_of(trials)
    if baseline is None or baseline.result.state is not TrialState.MEASURED:
        return False
    if is_settled(_checks(trials)) or budget.why_stop(trials) is not None:
        return False
    return budget.spec.launches - budget.spent_launches(trials) >= _LEAST_LAUNCHES


def _checks(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in over(trials) if trial.phase is Phase.NEIGHBOURS]


async def among_neighbours(
    sets: Sequence[TrialRunner], setting: Setting, targets: Sequence[Target], keep: Keep
) -> TrialResult:
    """The setting measured on the first set, while it carries the same load on every other one.

    Where it fails on any of them, that is the answer.
    """
    up, done = [asyncio.Event() for _ in sets], asyncio.Event()
    ended: dict[int, TrialResult] = {}

    async def meet(number: int) -> None:
        up[number].set()
        for each in up:
            await each.wait()

    async def take_part(number: int, runner: TrialRunner) -> None:
        come = partial(meet, number)
        try:
            if number == 0:
                ended[number] = await runner.at_load(setting, targets, keep, come)
            else:
                ended[number] = await runner.accompany(setting, come, done.wait)
        finally:
            # who did not come up is not waited for; without the first nobody goes on
            up[number].set()
            if number == 0:
                done.set()

    async with Lanes([(n, _salted(runner, n)) for n, runner in enumerate(sets)]) as lanes:
        for _ in sets:
            await lanes.start(lambda each: take_part(*each))
        while lanes.are_busy:
            await lanes.one_ends()
    failed = [ended[n] for n in sorted(ended) if ended[n].state is not TrialState.MEASURED]
    return failed[0] if failed else ended[0]


def _salted(runner: TrialRunner, number: int) -> TrialRunner:
    """With prompts of its own, as every launch has them."""
    seed = salt(runner.spec.seed, str(Phase.NEIGHBOURS), number)
    return replace(runner, spec=replace(runner.spec, seed=seed))


def why_alone(
    trials: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    targets: Sequence[Target],
    spec: JobSpec,
) -> str | None:
    """Why the search may not use its sets side by side; None where they are not shown to disturb
    each other."""
    baseline, checks = baseline_of(trials), _checks(trials)
    if baseline is None or baseline.result.state is not TrialState.MEASURED:
        return f"{_ALONE}: without a measured baseline nothing shows whether sets disturb others"
    if not checks:
        return f"{_ALONE}: its budget left no launch to see whether sets disturb each other"
    check = checks[-1]
    if check.result.state is not TrialState.MEASURED:
        failure = check.result.failure
        why = check.result.note if failure is None else failure.message
        return f"{_ALONE}: the current setting was not measured beside the others' load ({why})"
    found = _slower(baseline, check, scored, targets, spec)
    if not found:
        return None
    return f"{_ALONE}: beside the others' load the current setting's {', '.join(found)}"


def _slower(
    alone: Trial,
    beside: Trial,
    scored: Mapping[int, Sequence[Scored]],
    targets: Sequence[Target],
    spec: JobSpec,
) -> list[str]:
    """Each target whose metric is worse beside neighbours, with how much."""
    ours, theirs = (_by_window(scored.get(t.number, ()), spec.load) for t in (beside, alone))
    pairs = [(ours[name], theirs[name]) for name in sorted(ours.keys() & theirs.keys())]
    # any of them could be the one that is shown slower
    confidence = 2 * level(spec.confidence, max(len(time_targets(targets)), 1)) - 1
    found = (
        _worse_errors(alone, beside, target, spec.load)
        if target.metric is Metric.ERRORS or target.percentile is None
        else _slower_percentile(pairs, target.metric, target.percentile, confidence)
        for target in targets
    )
    return [text for text in found if text is not None]


def _by_window(scored: Sequence[Scored], load: float) -> dict[str, Curves]:
    return {each.window: each.curves for each in scored if each.multiple == load}


def _slower_percentile(
    pairs: Sequence[tuple[Curves, Curves]], metric: Metric, percentile: float, confidence: float
) -> str | None:
    """By the interval over pairs of windows, or by each of them; by the bare ratio where there is
    none."""
    name = f"{metric.upper()} p{percentile:g}"
    compared = compare(pairs, metric, percentile, confidence)
    if compared is not None:
        low, high = compared.lower_ratio, compared.upper_ratio
        if low <= _ALIKE and not _each_is_slower(pairs, metric, percentile):
            return None
        return f"{name} is {low:.2f} to {high:.2f} times as long over {compared.pairs} windows"
    ours, theirs = (
        _percentile([pair[side] for pair in pairs], metric, percentile) for side in (0, 1)
    )
    if ours is None or theirs is None or ours <= _MOST_RATIO * theirs:
        return None
    if math.isinf(ours) or theirs == 0:
        return f"{name} has no ratio to what it is alone"
    return f"{name} is {ours / theirs:.2f} times as long"


def _each_is_slower(
    pairs: Sequence[tuple[Curves, Curves]], metric: Metric, percentile: float
) -> bool:
    """Where tails vary, three pairs leave an interval wide; that all lie on one side is no chance
    either."""
    ratios = []
    for pair in pairs:
        ours, theirs = (_percentile([side], metric, percentile) for side in pair)
        ratios.append(ours / theirs if ours is not None and theirs else 0.0)
    return min(ratios, default=0.0) > _MOST_EACH


def _percentile(replays: Sequence[Curves], metric: Metric, percentile: float) -> float | None:
    """In nanoseconds, infinite where failed requests reach that deep; None without samples."""
    if not replays:
        return None
    sample = pool(replays, metric)
    if not len(sample):
        return None
    return sample.at(nearest_rank(1 - percentile / 100, len(sample)))


def _worse_errors(alone: Trial, beside: Trial, target: Target, load: float) -> str | None:
    before, after = (_verdict(trial, target, load) for trial in (alone, beside))
    if after is Verdict.MISSED and before is not Verdict.MISSED:
        return f"{target} is missed, and is not when it is alone"
    return None


def _verdict(trial: Trial, target: Target, load: float) -> Verdict | None:
    measured = trial.result.at(load)
    judgements = measured.judgements if measured else ()
    return next((each.verdict for each in judgements if each.target == target), None)
