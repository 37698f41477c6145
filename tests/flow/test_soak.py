"""A setting that carries every window and dies of the longest requests at once is not advised."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from advisor.bench.soak import WINDOW
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.advice import Advice, AdviceOutcome
from advisor.terms.errors import ReplayInterrupted
from advisor.terms.job import EngineInfo, Launch, Phase, ServerFacts
from advisor.terms.outcome import Failure, Reason, ReplayOutcome, TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict
from advisor.terms.traces import Look, Traces
from advisor.tune.ports import Bench, Mark, Progress, Server
from advisor.wiring.asked import Asked
from advisor.wiring.prepare import prepare
from advisor.wiring.run import run
from advisor.wiring.spec import spec_of
from advisor.wiring.stored import judge_again
from tests.flow.loads import write_small
from tests.unit.tune.jobs import Quiet

SHORT = Failure(Reason.OOM_UNDER_LOAD, "CUDA out of memory", "load")


@dataclass(frozen=True, slots=True)
class Fragile:
    """The simulator, but a server that gets several requests at once has no memory for them."""

    bench: Bench

    async def about(self) -> EngineInfo:
        return await self.bench.about()

    def hold(self, what: str) -> AbstractContextManager[None]:
        return self.bench.hold(what)

    @asynccontextmanager
    async def serve(
        self, setting: Setting, mark: Mark = lambda token: None
    ) -> AsyncIterator[Server]:
        async with self.bench.serve(setting, mark) as server:
            yield FragileServer(server)


@dataclass(frozen=True, slots=True)
class FragileServer:
    server: Server

    @property
    def launch(self) -> Launch:
        return self.server.launch

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        traces = await self.server.replay(plan, on_progress, look)
        if plan.at_once is not None:
            raise ReplayInterrupted(SHORT, traces)
        return traces

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        return await self.server.facts(since)

    def doubt(self, facts: ServerFacts) -> tuple[ReplayOutcome, str]:
        return self.server.doubt(facts)


def advised(folder: Path, *, fragile: bool) -> tuple[Advice, SqlLedger, str]:
    asked = Asked(
        model="llama-3.1-8b",
        profile=str(write_small(folder / "small.jsonl")),
        engine="sim",
        hardware="h100-sxm",
        targets=("ttft:p90<=0.6x", "itl:p90<=40ms"),
        baseline="--no-enable-prefix-caching",
        objective="latency",
        launches=4,
        seed=3,
    )
    prepared = prepare(spec_of(asked))
    if fragile:
        prepared = replace(prepared, bench=Fragile(prepared.bench))
    about = asyncio.run(prepared.bench.about())
    ledger = SqlLedger(f"sqlite:///{folder / 'ledger.db'}", owner=Owner.this_process())
    job = ledger.open_job(prepared.spec, about)
    return asyncio.run(run(prepared, job, ledger, Quiet())), ledger, job.id


@pytest.fixture(name="died", scope="module")
def _died(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Advice, SqlLedger, str]]:
    advice, ledger, job = advised(tmp_path_factory.mktemp("died"), fragile=True)
    yield advice, ledger, job
    ledger.close()


def test_a_server_that_survives_is_recommended(tmp_path: Path) -> None:
    advice, ledger, job = advised(tmp_path, fragile=False)
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert any(reason.startswith("It survived ") for reason in advice.reasons)
    (soaked,) = [t.number for t in ledger.trials(job) if t.result.soak is not None]
    *_, last = ledger.replays(job, soaked)
    assert (last.outcome, last.plan.window) == (ReplayOutcome.SOAK, WINDOW)
    assert last.plan.at_once is not None
    ledger.close()


def test_one_that_dies_is_not_though_its_windows_met_the_targets(
    died: tuple[Advice, SqlLedger, str],
) -> None:
    advice, ledger, job = died
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0] == (
        "The best setting found does not survive the profile's longest requests at once"
    )
    assert advice.choice is not None
    assert advice.choice.measurement is not None
    assert advice.choice.measurement.verdict is Verdict.MET
    dead = [t for t in ledger.trials(job) if t.result.soak is not None]
    assert {t.phase for t in dead} == {Phase.CONFIRM}
    for trial in dead:
        assert trial.result.state is TrialState.INFEASIBLE
        assert trial.result.failure == SHORT
        assert WINDOW.name not in {each.window for each in ledger.scored(job)[trial.number]}
    assert len({t.setting for t in dead}) == len(dead), "nobody gets a second chance"


def test_other_targets_do_not_revive_it(died: tuple[Advice, SqlLedger, str]) -> None:
    _, ledger, job = died
    _, _, advice = judge_again(ledger, job, ["ttft:p90<=10s", "itl:p90<=10s"])
    assert advice.outcome is not AdviceOutcome.RECOMMENDED
