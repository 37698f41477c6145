"""One trial: one launch of one setting, its replays, one outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from advisor.bench.headroom import bracket
from advisor.bench.play import Assess, Player, salt
from advisor.bench.soak import most_at_once, most_open, soak, soak_plan
from advisor.measure.curves import Curves, curves
from advisor.measure.headroom import headroom
from advisor.measure.measure import measure
from advisor.measure.stop import Question
from advisor.terms.errors import LaunchFailed
from advisor.terms.job import JobSpec, Launch, Objective, Replay, Soak, TrialResult
from advisor.terms.measurement import Measurement
from advisor.terms.outcome import StopReason, TrialState
from advisor.terms.profile import Plan, Window, Windows
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.tune.lanes import Lanes
from advisor.tune.ports import Bench, Mark, Server
from advisor.tune.watch import Watch


@dataclass(frozen=True, slots=True)
class Keep:
    """Where a trial writes down what happens, at once."""

    #: before anything is started
    token: Mark
    #: every attempt, void ones too
    replay: Callable[[Replay], None]


#: Waits for whoever else takes part.
Meet = Callable[[], Awaitable[object]]

#: Makes relative targets absolute, given the baseline's replays at the job's load.
Resolve = Callable[[Sequence[Curves]], tuple[Target, ...]]


def _unmarked(token: str) -> None:
    """Nobody keeps it; the processes carry it all the same."""


class VoidReplay(Exception):
    """The load generator, not the server, spoiled a replay three times; carries the last note."""


@dataclass(slots=True)
class _Found:
    """Kept when the server dies half-way: what was measured stays measured."""

    launch: Launch | None = None
    measurements: list[Measurement] = field(default_factory=list)
    #: what a person should know of it, one line each
    notes: list[str] = field(default_factory=list)
    #: requests at one moment of a scored replay
    most_open: int | None = None
    soak: Soak | None = None

    def noting(self, keep: Callable[[Replay], None]) -> Callable[[Replay], None]:
        """`keep`, with how many requests were open at once, and a note for each early stop."""

        def record(replay: Replay) -> None:
            keep(replay)
            if replay.outcome.is_scored:
                self.most_open = max(self.most_open or 0, most_open(replay.traces))
            if replay.stop is not None:
                where = f"at {replay.plan.multiple:g}x {replay.plan.window.name}"
                self.notes.append(f"{where} was stopped early, {replay.note}")

        return record


@dataclass(frozen=True, slots=True)
class TrialRunner:
    """Runs trials on a bench; knows nothing of the ledger or of the search."""

    bench: Bench
    spec: JobSpec
    windows: Windows
    #: how to tell, for these targets, whether a replay is worth scoring
    assess_for: Callable[[Sequence[Target]], Assess]
    watch: Watch

    async def search(
        self,
        setting: Setting,
        targets: Sequence[Target],
        keep: Keep,
        resolve: Resolve,
        *,
        whole: bool,
        to_beat: float | None = None,
    ) -> TrialResult:
        """All search windows at the job's load, then at the multiples that bracket headroom.

        `whole`: at the job's load nothing is stopped early, since more than a verdict rests on it.
        `to_beat`: the multiple that it has to carry to be of use.
        """
        load, windows = self.spec.load, self.windows.search

        async def deed(server: Server, found: _Found) -> None:
            player = self._player(server, targets, found.noting(keep.replay))
            judged = () if whole else targets
            at_load = await self._pool(player, setting, windows, load, judged)
            absolute = resolve(at_load)

            def note(pool: Sequence[Curves], multiple: float) -> Measurement:
                measured = self._measure(pool, absolute, multiple, len(windows))
                found.measurements.append(measured)
                return measured

            async def measure_at(multiple: float) -> Measurement | None:
                try:
                    pool = await self._pool(player, setting, windows, multiple, absolute)
                    return note(pool, multiple)
                except VoidReplay as exc:  # the client's limit is not the server's
                    found.notes.append(f"at {multiple:g}x the {exc}")
                    return None

            measured = note(at_load, load)
            if self.spec.objective in (Objective.HEADROOM, Objective.COST):
                multiples = [load * multiple for multiple in self.spec.multiples]
                await bracket(multiples, load, measured, measure_at, to_beat)

        return await self._launch(setting, keep.token, deed)

    async def confirm(
        self,
        setting: Setting,
        targets: Sequence[Target],
        keep: Keep,
        window: Window,
        multiples: Sequence[float],
        *,
        arm: str = "",
        soak_with: int | None = None,
    ) -> TrialResult:
        """One held-out window at each multiple, on a launch of its own.

        `arm` names one of several arms of the same setting, which share no prompt. `soak_with`:
        the server then has to survive the longest requests, as many at once as were open here,
        and not fewer than this; None: it is spared that.
        """

        async def deed(server: Server, found: _Found) -> None:
            player = self._player(server, targets, found.noting(keep.replay))
            for multiple in multiples:
                pool = await self._pool(player, setting, (window,), multiple, arm=arm)
                found.measurements.append(self._measure(pool, targets, multiple, 1))
            if soak_with is None:
                return
            requests = min(max(soak_with, found.most_open or 1), most_at_once(server.launch))
            prompts = salt(self.spec.seed, setting.key, window.name, "soak")
            self.watch.replaying("soak", max(multiples))
            try:
                plan = soak_plan(requests, max(multiples), prompts)
                found.soak = await soak(server, plan, keep.replay)
            except LaunchFailed as exc:
                found.soak = Soak(requests, trouble=str(exc))
                raise
            if found.soak.trouble:
                found.notes.append(f"all at once, {found.soak.trouble}")

        return await self._launch(setting, keep.token, deed)

    async def at_load(
        self, setting: Setting, targets: Sequence[Target], keep: Keep, meet: Meet
    ) -> TrialResult:
        """All search windows at the job's load, whole, on a launch of its own that is given load
        once `meet` is over."""
        windows, load = self.windows.search, self.spec.load

        async def deed(server: Server, found: _Found) -> None:
            await meet()
            player = self._player(server, targets, keep.replay)
            pool = await self._pool(player, setting, windows, load)
            found.measurements.append(self._measure(pool, targets, load, len(windows)))

        return await self._launch(setting, keep.token, deed)

    async def accompany(self, setting: Setting, meet: Meet, leave: Meet) -> TrialResult:
        """The same load, over and over until `leave` is over, for others to be measured beside;
        nothing of it is kept."""

        async def load(server: Server) -> None:
            for played, window in enumerate(cycle(self.windows.search)):
                # no prompt comes twice, or later turns would find it in the prefix cache
                mark = salt(self.spec.seed, setting.key, window.name, self.spec.load, played)
                await server.replay(Plan(window, self.spec.load, mark, self.windows.gap_ns))
                # where replays take no time, nobody else would get on
                await asyncio.sleep(0)

        async def wait(_: Server) -> None:
            await leave()

        async def deed(server: Server, _: _Found) -> None:
            await meet()
            async with Lanes((server, server)) as lanes:
                await lanes.start(load)
                await lanes.start(wait)
                await lanes.one_ends()

        return await self._launch(setting, _unmarked, deed)

    async def _launch(
        self, setting: Setting, mark: Mark, deed: Callable[[Server, _Found], Awaitable[None]]
    ) -> TrialResult:
        found = _Found()
        failure, state = None, TrialState.MEASURED
        try:
            async with self.bench.serve(setting, mark) as server:
                found.launch = server.launch
                await deed(server, found)
        except LaunchFailed as exc:
            failure, state = exc.failure, exc.failure.state
        except VoidReplay as exc:
            state = TrialState.FAILED
            found.notes.append(str(exc))
        points = sorted(found.measurements, key=lambda m: m.multiple)
        bracketed = headroom(points) if points and state is TrialState.MEASURED else None
        return TrialResult(
            state,
            failure,
            found.launch,
            tuple(points),
            bracketed,
            "; ".join(found.notes),
            gpus=setting.gpus,
            most_open=found.most_open,
            soak=found.soak,
        )

    def _measure(
        self, pool: Sequence[Curves], targets: Sequence[Target], multiple: float, windows: int
    ) -> Measurement:
        spec = self.spec
        return measure(pool, targets, multiple, spec.confidence, spec.calibration, windows)

    def _player(
        self, server: Server, targets: Sequence[Target], record: Callable[[Replay], None]
    ) -> Player:
        return Player(server, self.assess_for(targets), record)

    async def _pool(
        self,
        player: Player,
        setting: Setting,
        windows: Sequence[Window],
        multiple: float,
        judged: Sequence[Target] = (),
        *,
        arm: str = "",
    ) -> list[Curves]:
        """One replay of each window, as far as they are needed to tell that one of `judged` is
        missed; raises VoidReplay when one cannot be scored."""
        pool = list[Curves]()
        for window in windows:
            self.watch.replaying(window.name, multiple)
            plan = Plan(
                window=window,
                multiple=multiple,
                salt=salt(self.spec.seed, setting.key + arm, window.name, multiple),
                lead_in_ns=self.windows.gap_ns,
            )
            question = Question(
                judged, self.spec.confidence, len(windows), self.spec.calibration, tuple(pool)
            )
            replay = await player.play(plan, question if judged else None)
            if not replay.outcome.is_scored:
                raise VoidReplay(f"replay of {window.name} is {replay.outcome}: {replay.note}")
            pool.append(curves(replay.traces))
            if replay.stop is StopReason.OUT_OF_REACH:
                break
        return pool
