"""A profile played many times in the simulator before its job starts, to learn how its bounds err.

Loads are shares of what the simulated server carries, so a light load, the job's and one near
saturation are all there whatever the machine.
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from advisor.bench.play import salt
from advisor.measure.curves import Curves, curves
from advisor.measure.rehearsal import rehearse_bounds
from advisor.profile.columns import Columns
from advisor.profile.resample import resampled
from advisor.sim.config import EngineConfig
from advisor.sim.simulate import simulate
from advisor.terms.calibration import Calibration
from advisor.terms.profile import Plan, Profile, Window, WindowRole, Windows
from advisor.terms.target import Metric
from advisor.terms.traces import RequestStatus, Traces

#: Of the load at which the simulated server can do no more.
SHARES = (0.4, 0.6, 0.75, 0.9, 1.0)
#: Simulated replays at each load.
WINDOWS = 24
#: Of the recording, drawn at random, that each of them is made of: the recording's own windows
#: are few, and chance makes heavier and lighter ones than those.
SEGMENTS = 4
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
    if load < most:
        # instead of a rung that is as good as the same
        multiples = {m for m in multiples if abs(math.log(m / load)) > _CLOSE} | {load}
    runs = {multiple: stage.replays(multiple) for multiple in sorted(multiples)}
    pool_of = len(windows.search)
    recorded = max(round(profile.duration_ns / windows.search[0].duration_ns), pool_of)
    return Calibration(
        model=config.model.name,
        hardware=config.hardware.name,
        windows=WINDOWS,
        rehearsed=rehearse_bounds(runs, asked, levels, pool_of, recorded, seed % 2**32),
    )


class Stage:
    """Windows of traffic like a profile's on one simulated server, each on a launch of its own."""

    def __init__(
        self, profile: Profile, windows: Windows, config: EngineConfig, seed: int
    ) -> None:
        self._config, self._seed = config, seed
        self._lead_ns, self._length_ns = windows.gap_ns, windows.search[0].duration_ns
        length_ns = WINDOWS * (self._lead_ns + self._length_ns)
        segment_ns = self._length_ns // SEGMENTS
        self._columns = Columns.of(resampled(profile, length_ns, segment_ns, seed))
        self._recorded_rps = len(profile.requests) / (profile.duration_ns / 1e9)

    def capacity(self) -> float:
        """The load multiple that is just too much: what it completes a second under overload,
        over what was recorded a second."""
        multiple = _OVERLOAD
        for _ in range(_DOUBLINGS):
            most = _completed_rps(self._play(0, multiple)) / self._recorded_rps
            if most < multiple / 2:
                break
            multiple *= 2
        return most

    def replays(self, multiple: float) -> list[Curves]:
        """Side by side: what takes long in them lets Python's lock go."""
        with ThreadPoolExecutor(min(os.cpu_count() or 1, WINDOWS)) as threads:
            return list(threads.map(lambda n: curves(self._play(n, multiple)), range(WINDOWS)))

    def _play(self, number: int, multiple: float) -> Traces:
        start_ns = number * (self._lead_ns + self._length_ns) + self._lead_ns
        end_ns = start_ns + self._length_ns
        window = Window(f"rehearsal-{number}", WindowRole.SEARCH, start_ns, end_ns)
        seed = salt(self._seed, "rehearsal", number, multiple)
        return played(
            self._columns, Plan(window, multiple, seed, self._lead_ns), self._config, seed
        )


def played(columns: Columns, plan: Plan, config: EngineConfig, seed: int) -> Traces:
    """One replay in virtual time, on the launch that the seed numbers."""
    return simulate(
        columns.load(plan),
        config,
        window_start_ns=plan.lead_in_ns,
        window_end_ns=plan.lead_in_ns + plan.window.duration_ns,
        seed=seed % 2**32,
    ).traces


def _completed_rps(traces: Traces) -> float:
    inside = (traces.end_ns >= traces.window_start_ns) & (traces.end_ns < traces.window_end_ns)
    done = inside & (traces.status == RequestStatus.OK)
    return int(done.sum()) / ((traces.window_end_ns - traces.window_start_ns) / 1e9)
