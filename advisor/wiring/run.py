"""The conductor with its parts."""

from collections.abc import Sequence

from advisor.bench.play import Assess
from advisor.replay.audit import judge_replay
from advisor.store.ledger import SqlLedger
from advisor.terms.advice import Advice
from advisor.terms.job import Job
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.target import Metric, Target
from advisor.terms.traces import Traces
from advisor.tune.job import Conductor
from advisor.tune.trial import TrialRunner
from advisor.tune.watch import Watch
from advisor.wiring.prepare import Prepared


async def run(prepared: Prepared, job: Job, ledger: SqlLedger, watch: Watch) -> Advice:
    """Run or go on with one job to its advice."""
    spec = prepared.spec
    runner = TrialRunner(
        bench=prepared.bench,
        spec=spec,
        windows=prepared.split.windows,
        assess_for=always_valid if spec.engine == "sim" else client_gates,
        watch=watch,
    )
    conductor = Conductor(
        job=job,
        baseline=prepared.baseline,
        windows=prepared.split.windows,
        ledger=ledger,
        searcher=prepared.searcher,
        runner=runner,
        watch=watch,
    )
    return await conductor.run()


def always_valid(_: Sequence[Target]) -> Assess:
    """The simulator has no client that could be late."""
    return lambda _: (ReplayOutcome.VALID, "")


def client_gates(targets: Sequence[Target]) -> Assess:
    """Gates for a real client, set by the tightest limits of the job."""
    ttft_ms = _tightest_ms(targets, (Metric.TTFT, Metric.E2E))
    itl_ms = _tightest_ms(targets, (Metric.ITL, Metric.TOKEN_ITL, Metric.TPOT))

    def assess(traces: Traces) -> tuple[ReplayOutcome, str]:
        return judge_replay(traces, ttft_limit_ms=ttft_ms, itl_limit_ms=itl_ms)

    return assess


def _tightest_ms(targets: Sequence[Target], metrics: tuple[Metric, ...]) -> float | None:
    limits = [t.limit_ns / 1e6 for t in targets if t.metric in metrics and not t.is_relative]
    return min(limits, default=None)
