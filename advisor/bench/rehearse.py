"""A profile played many times in the simulator before its job starts, to learn how its bounds err.

Loads are shares of what the simulated server carries, so a light load, the job's and one near
saturation are all there whatever the machine.
"""

import math
from collections.abc import Sequence
from random import Random

from advisor.bench.play import salt
from advisor.measure.curves import Curves, curves
from advisor.measure.rehearsal import rehearse_bounds
from advisor.profile.columns import Columns
from advisor.sim.config import EngineConfig
from advisor.sim.simulate import simulate
from advisor.terms.calibration import Calibration
from advisor.terms.profile import Plan, Profile, Window, WindowRole, Windows
from advisor.terms.target import Metric
from advisor.terms.traces import RequestStatus, Traces

#: Of the load at which the simulated server can do no more.
SHARES = (0.4, 0.6, 0.75, 0.9)
#: Simulated replays at each load, at places of the recording drawn at random.
WINDOWS = 20
#: The multiple at which the most that a server can do is looked for, and how often it is doubled
#: where even that leaves it idle.
_OVERLOAD, _DOUBLINGS = 8.0, 6
#: Loads whose logarithms differ by less are one.
_CLOSE = 0.15


def rehearse(
    profile: Profile,
    windows: Windows,
    config: EngineConfig,
    asked: Sequence[tuple[Metric, float]],
    levels: Sequence[float],
    *,
    load: float,
    seed: int,
) -> Calibration:
    """Simulate windows as long as the job's at several loads, the job's own among them.

    `asked` are latency percentiles, `levels` the one-sided levels of the job's verdicts.
    """
    stage = Stage(profile, windows, config, seed)
    most = stage.capacity()
    multiples = {round(most * share, 4) for share in SHARES}
    if load < most * SHARES[-1]:
        # instead of a rung that is as good as the same
        multiples = {m for m in multiples if abs(math.log(m / load)) > _CLOSE} | {load}
    runs = {multiple: stage.replays(multiple) for multiple in sorted(multiples)}
    pool_of = len(windows.search)
    return Calibration(
        model=config.model.name,
        hardware=config.hardware.name,
        windows=WINDOWS,
        rehearsed=rehearse_bounds(runs, asked, levels, pool_of, seed % 2**32),
    )


class Stage:
    """Replays of one profile on one simulated server; each is a launch of its own."""

    def __init__(
        self, profile: Profile, windows: Windows, config: EngineConfig, seed: int
    ) -> None:
        self._profile, self._config, self._seed = profile, config, seed
        self._columns = Columns.of(profile)
        self._lead_ns = windows.gap_ns
        self._length_ns = windows.search[0].duration_ns

    def capacity(self) -> float:
        """The load multiple that is just too much: what it completes a second under overload,
        over what was recorded a second."""
        recorded_rps = len(self._profile.requests) / (self._profile.duration_ns / 1e9)
        multiple = _OVERLOAD
        for _ in range(_DOUBLINGS):
            traces = self.play(0, multiple)
            most = _completed_rps(traces) / recorded_rps
            if most < multiple / 2:
                break
            multiple *= 2
        return most

    def replays(self, multiple: float) -> list[Curves]:
        return [curves(self.play(number, multiple)) for number in range(WINDOWS)]

    def play(self, number: int, multiple: float) -> Traces:
        """A window as long as the job's, from a place of the recording that the number decides."""
        start_ns, seed = self._start_ns(number), salt(self._seed, "rehearsal", number, multiple)
        window = Window(
            f"rehearsal-{number}", WindowRole.SEARCH, start_ns, start_ns + self._length_ns
        )
        plan = Plan(window, multiple, seed, self._lead_ns)
        return simulate(
            self._columns.load(plan),
            self._config,
            window_start_ns=self._lead_ns,
            window_end_ns=self._lead_ns + self._length_ns,
            seed=seed % 2**32,
        ).traces

    def _start_ns(self, number: int) -> int:
        first = self._profile.requests[0].arrival_ns + self._lead_ns
        last = self._profile.requests[-1].arrival_ns - self._length_ns
        return first + round(Random(salt(self._seed, number)).random() * (last - first))


def _completed_rps(traces: Traces) -> float:
    inside = (traces.end_ns >= traces.window_start_ns) & (traces.end_ns < traces.window_end_ns)
    done = inside & (traces.status == RequestStatus.OK)
    return int(done.sum()) / ((traces.window_end_ns - traces.window_start_ns) / 1e9)
