"""The conductor with its parts."""

from collections.abc import Sequence

from advisor.bench.carries import client_warning
from advisor.bench.play import Assess
from advisor.replay.audit import judge_replay
from advisor.replay.capacity import measure_capacity
from advisor.store.ledger import SqlLedger
from advisor.terms.advice import Advice
from advisor.terms.job import Job
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.target import Target
from advisor.tune.job import Conductor
from advisor.tune.trial import TrialRunner
from advisor.tune.watch import Watch
from advisor.wiring.explained import ranges_of
from advisor.wiring.foreseen import foreseen
from advisor.wiring.prepare import Prepared


async def run(prepared: Prepared, job: Job, ledger: SqlLedger, watch: Watch) -> Advice:
    """Run or go on with one job to its advice."""
    spec = prepared.spec
    if spec.engine != "sim":
        # one load generator for all that runs side by side
        top = spec.load * max(spec.multiples) * len(prepared.benches)
        warning = await client_warning(prepared.profile, top, measure_capacity)
        if warning is not None:
            watch.note(warning)
    prepared.searcher.physics = foreseen(prepared, job.engine)
    runner, *beside = (
        TrialRunner(
            bench=bench,
            spec=spec,
            windows=prepared.split.windows,
            assess_for=always_valid if spec.engine == "sim" else client_gates,
            watch=watch,
        )
        for bench in prepared.benches
    )
    conductor = Conductor(
        job=job,
        baseline=prepared.baseline,
        windows=prepared.split.windows,
        ledger=ledger,
        searcher=prepared.searcher,
        runner=runner,
        watch=watch,
        ranges=ranges_of(spec),
        beside=beside,
    )
    return await conductor.run()


def always_valid(_: Sequence[Target]) -> Assess:
    """The simulator has no client that could be late."""
    return lambda _: (ReplayOutcome.VALID, "")


def client_gates(targets: Sequence[Target]) -> Assess:
    """Gates for a real client, set by what it could spoil of the job's targets."""
    return lambda traces: judge_replay(traces, targets)
