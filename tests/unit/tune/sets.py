"""Whole small jobs on several sets of GPUs, whose servers let each other get on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from advisor.terms.job import JobSpec, Phase, Trial
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.traces import Look, Traces
from advisor.tune.job import Conductor
from advisor.tune.ports import Mark, Progress
from tests.contract.scripted_bench import Dials, Script, ScriptedBench, ScriptedServer, Tap
from tests.unit.tune.jobs import ENGINE, SEQS, World, spec_with

#: The baseline, the check of neighbours, and each setting of the Space.
SPEC = spec_with(launches=6, gpus="0;1")

#: Turns of the loop that the start of a setting takes.
Turns = Callable[[Setting], int]


def at_once(setting: Setting) -> int:
    return 1


def silent(deed: str, detail: object) -> None:
    """Nobody listens."""


def last(seqs: int) -> Turns:
    """The setting with this value is up when all others are done."""
    return lambda setting: 1000 if setting.get(SEQS) == seqs else 1


@dataclass
class YieldingServer(ScriptedServer):
    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().replay(plan, on_progress, look)


@dataclass
class YieldingBench(ScriptedBench):
    turns: Turns = at_once

    @asynccontextmanager
    async def serve(
        self, setting: Setting, mark: Mark = lambda token: None
    ) -> AsyncIterator[ScriptedServer]:
        async with super().serve(setting, mark) as server:
            for _ in range(self.turns(setting)):
                await asyncio.sleep(0)
            yield YieldingServer(self, setting, server.dials)


@dataclass
class Sets(World):
    """One bench for each set of the spec."""

    turns: Turns = at_once
    #: how settings behave on every set but the first; None: as there
    elsewhere: Script | None = None
    #: of one launch
    gpus: int | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        others = self.elsewhere or self.script
        scripts = [self.script, *[others] * (len(self.spec.gpu_sets) - 1)]
        self.benches = [YieldingBench(each, self._tapped, turns=self.turns) for each in scripts]
        self.bench = self.benches[0]
        self.job = self.ledger.open_job(self.spec, replace(ENGINE, gpus=self.gpus))

    def conductor(self) -> Conductor:
        conductor = super().conductor()
        beside = [replace(conductor.runner, bench=bench) for bench in self.benches[1:]]
        return replace(conductor, beside=beside)

    @property
    def are_serving(self) -> bool:
        return any(bench.serving for bench in self.benches)


def disturbed(times: float, spec: JobSpec = SPEC, tap: Tap = silent) -> Sets:
    """A baseline that is slower beside loaded neighbours."""

    def script(setting: Setting) -> Dials:
        _, phase, _ = world.watch.opened
        slower = times if phase is Phase.NEIGHBOURS else 1.0
        return Dials(100 * slower, 10, carries=2.0 if setting.get(SEQS) == 16 else 1.0)

    world = Sets(script, spec, tap=tap)
    return world


def side_by_side(world: World) -> set[Phase]:
    """The phases of trials that were open while another one was."""
    found = set()
    for one in world.trials:
        others = [trial for trial in world.trials if trial.number != one.number]
        if any(_overlap(one, other) for other in others):
            found.add(one.phase)
    return found


def _overlap(one: Trial, other: Trial) -> bool:
    spans = []
    for trial in (one, other):
        assert trial.ended_s is not None
        assert trial.elapsed_s is not None
        spans.append((trial.ended_s - trial.elapsed_s, trial.ended_s))
    return spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]


def told(world: World, since: int = 0) -> list[int]:
    """Values of the knob in the order in which the searcher heard of them, the baseline's too."""
    tells: list[Any] = [detail for deed, detail in world.deeds[since:] if deed == "tell"]
    return [proposal.setting.get(SEQS) for proposal, _ in tells]
