"""Where two settings differ on every window, so that no single launch makes the difference."""

from collections.abc import Mapping, Sequence

from advisor.measure.headroom import worst_excess
from advisor.measure.measure import measure
from advisor.terms.job import JobSpec, Trial
from advisor.terms.target import Target
from advisor.tune.ports import Scored


def apart_at(
    ours: Sequence[Trial],
    theirs: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    targets: Sequence[Target],
    spec: JobSpec,
) -> tuple[float, ...]:
    """The load multiples at which, on each window, ours lies within all limits and theirs over
    one, by the window's own percentiles. Each window was replayed on a launch of its own."""
    ours_over, theirs_over = (_over(arm, scored, targets, spec) for arm in (ours, theirs))
    shared = ours_over.keys() & theirs_over.keys()
    parted = {pair: not ours_over[pair] and theirs_over[pair] for pair in shared}
    multiples = {multiple for _, multiple in ours_over.keys() | theirs_over.keys()}
    return tuple(
        multiple
        for multiple in sorted(multiples)
        if any(at == multiple for _, at in parted)
        and all(apart for (_, at), apart in parted.items() if at == multiple)
    )


def _over(
    arm: Sequence[Trial],
    scored: Mapping[int, Sequence[Scored]],
    targets: Sequence[Target],
    spec: JobSpec,
) -> dict[tuple[str, float], bool]:
    """By window and multiple, whether an estimate there lies over its limit."""
    return {
        (replay.window, replay.multiple): worst_excess(
            measure([replay.curves], targets, replay.multiple, spec.confidence)
        )
        > 0
        for trial in arm
        for replay in scored.get(trial.number, ())
    }
