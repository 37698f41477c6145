"""What the simulator expects of each setting, as far as launches have calibrated it."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from advisor.calibrate.constants import Constants
from advisor.calibrate.percentiles import FREE, Played, Point, fit_percentiles, percentile_ms
from advisor.calibrate.solve import Fit
from advisor.search.surrogate import Float64
from advisor.sim import EngineConfig, Hardware, modelled, resolve
from advisor.terms.errors import InputError, LaunchFailed
from advisor.terms.job import TrialResult
from advisor.terms.outcome import Reason
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target
from advisor.terms.traces import RequestStatus, Traces

#: Servers that are as likely as the one fitted.
DRAWS = 6
#: Before any launch: how far constants are from the data sheets', as a logarithm in units of
#: `calibrate.constants._PRIOR` (0.5): a quarter either way.
_PRIOR_SPREAD = 0.5
#: After a fit, added to each: what one launch shows of a server is not all of it.
_FIT_SPREAD = 0.1
#: Launches that a fit looks at, the last ones.
_FITTED = 6
#: A ratio of estimate to limit counts no further than this, as a logarithm.
_MOST = math.log(10)
#: Servers that are as likely differ in a setting's headroom by no more than this, as a logarithm.
_MOST_APART = math.log(2)
#: The probability that a setting starts of which the simulator knows nothing.
_RUNS_UNKNOWN = 0.9
#: Settings that miss at every multiple, or meet at every one, keep this much of their order.
_TILT = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Of n settings."""

    #: float64[n], logarithm of the load multiple that they carry
    log_headroom: Float64
    #: float64[n, DRAWS]: the same on servers that are as likely, less the first
    deviations: Float64
    #: float64[n], the probability that it starts
    starts: Float64


@dataclass(slots=True)
class Physics:
    """The simulator's side of a search; deterministic in what it was told."""

    #: the load at a multiple
    traffic: Callable[[float], Played]
    hardware: Hardware
    #: those of the measurements told last, and before any the job's
    targets: tuple[Target, ...]
    #: absolute, ascending
    multiples: tuple[float, ...]
    seed: int
    #: to play in; one where servers are measured meanwhile
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    #: of each launch
    _points: list[list[Point]] = field(default_factory=list)
    _fit: Fit | None = None
    #: the likeliest server first
    _servers: list[Constants] = field(default_factory=list)
    _known: dict[str, tuple[Float64, float] | None] = field(default_factory=dict)
    #: (what matters of a setting, server, multiple) -> how far over its limits it is
    _excesses: dict[tuple[EngineConfig, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed % 2**64, 7])
        drawn = rng.normal(0.0, _PRIOR_SPREAD, (DRAWS, len(FREE.names)))
        low, high = FREE.bounds
        start = FREE.start
        self._servers = [FREE.constants(np.clip(start + each, low, high)) for each in drawn]
        self._servers.insert(0, FREE.constants(start))

    def expect(self, settings: Sequence[Setting]) -> Expected:
        """Plays those that it has not played on the servers of now."""
        new = [each for each in settings if each.key not in self._known]
        with ThreadPoolExecutor(self.threads) as threads:
            for setting, found in zip(new, threads.map(self._expect, new), strict=True):
                self._known[setting.key] = found
        known = [self._known[each.key] for each in settings]
        # of those it cannot tell anything of, what it tells of the others
        told = [float(each[0][0]) for each in known if each is not None]
        middle = float(np.median(told)) if told else 0.0
        unknown = (np.full(1 + DRAWS, middle), _RUNS_UNKNOWN)
        carried, starts = (
            np.array([(each or unknown)[part] for each in known]) for part in (0, 1)
        )
        return Expected(carried[:, 0], carried[:, 1:] - carried[:, :1], starts)

    def learn(self, setting: Setting, result: TrialResult) -> None:
        """Fit the constants again, to all that was measured so far.

        After the 1st, 2nd, 4th, 8th … launch: each one more tells less.
        """
        if not result.measurements:
            return
        # as resolved by now: one that is relative to the baseline is no limit yet at first
        self.targets = tuple(each.target for each in result.measurements[0].judgements)
        try:
            config = self._config(setting)
        except (LaunchFailed, InputError):
            return  # it runs where the simulator says it cannot: nothing to compare it with
        points = [
            Point(config, self.traffic(each.multiple), each.percentiles)
            for each in result.measurements
            if not each.stopped
        ]
        # the least and the most load tell nearly all that those between do
        points = [*points[:1], *points[1:][-1:]]
        if not points:
            return
        self._points.append(points)
        if len(self._points).bit_count() > 1:
            return
        told = [each for launch in self._points[-_FITTED:] for each in launch]
        fit = self._fit = fit_percentiles(told, self._fit)
        self._servers = [fit.constants, *fit.draw(DRAWS, self.seed, more_spread=_FIT_SPREAD)]
        self._known.clear()
        self._excesses.clear()

    def _config(self, setting: Setting) -> EngineConfig:
        """Without flags that the simulator does not model: they may do anything or nothing."""
        flags = modelled(dict(setting.flags))
        return resolve(Setting.of(setting.model, flags, setting.knobs), self.hardware)

    def _expect(self, setting: Setting) -> tuple[Float64, float] | None:
        """Logarithms of the headroom on each server, and the probability that it starts; None for
        a checkpoint that it does not know."""
        try:
            config = self._config(setting)
        except InputError:
            return None
        except LaunchFailed as exc:
            never = np.full(1 + DRAWS, math.log(self.multiples[0]) - _TILT * _MOST)
            return never, 0.0 if exc.failure.reason is Reason.INVALID_SETTING else 0.1
        met = self._highest_met(config)
        first, slope = self._log_headroom(config, met)
        return np.array([first, *self._on_others(config, max(met, 0), first, slope)]), 0.98

    def _highest_met(self, config: EngineConfig) -> int:
        """The highest multiple at which the likeliest server meets all targets, -1 for none."""
        low, high = -1, len(self.multiples)
        while high - low > 1:
            middle = (low + high) // 2
            met = self._excess(config, 0, middle) <= 0
            low, high = (middle, high) if met else (low, middle)
        return low

    def _log_headroom(self, config: EngineConfig, met: int) -> tuple[float, float]:
        """Interpolated between the last multiple met and the first missed, and by how much the
        excess rises there with the logarithm of the multiple."""
        logs = np.log(self.multiples)
        below = self._excess(config, 0, max(met, 0))
        if met < 0 or met == len(logs) - 1:
            return float(logs[met if met > 0 else 0]) - _TILT * below, 1 / _TILT
        slope = (self._excess(config, 0, met + 1) - below) / float(logs[met + 1] - logs[met])
        return float(logs[met]) - below / slope, slope

    def _on_others(
        self, config: EngineConfig, rung: int, first: float, slope: float
    ) -> list[float]:
        """The same on the servers that are as likely, from one multiple: near the limit, as much
        more excess is so much less headroom."""
        here = self._excess(config, 0, rung)
        more = (self._excess(config, n, rung) - here for n in range(1, 1 + DRAWS))
        return [first - min(max(each / slope, -_MOST_APART), _MOST_APART) for each in more]

    def _excess(self, config: EngineConfig, server: int, rung: int) -> float:
        played = self.traffic(self.multiples[rung])
        config = what_matters(config, played)
        key = (config, server, rung)
        if key not in self._excesses:
            traces = played.on(config, self._servers[server])
            self._excesses[key] = worst_excess([traces], self.targets)
        return self._excesses[key]


def what_matters(config: EngineConfig, played: Played) -> EngineConfig:
    """The same for two settings that play a load alike: a pool that holds every block which the
    load can ever need is as good as any larger one."""
    load, size = played.load, config.block_size
    most = 1 + int((-(-(load.input_length + load.output_length) // size)).sum())
    blocks = min(config.memory.num_blocks, most)
    memory = replace(config.memory, activation_bytes=0, kv_bytes=0, num_blocks=blocks)
    return replace(config, memory=memory, gpu_memory_utilization=0.0)


def worst_excess(replays: Sequence[Traces], targets: Sequence[Target]) -> float:
    """ln(estimate / limit) of the target that is furthest over, or nearest to, its limit; one
    without samples is as far over as any."""
    found = [-_MOST]
    for target in targets:
        if target.metric is Metric.ERRORS or target.percentile is None:
            status = np.concatenate([each.status[each.counted] for each in replays])
            failed = (status != RequestStatus.OK).mean()
            found.append(_MOST if 100 * failed > target.limit else -_MOST)
            continue
        estimate = percentile_ms(replays, target.metric, target.percentile)
        if estimate is None:
            found.append(_MOST)
            continue
        ratio = estimate * 1e6 / target.limit_ns
        found.append(min(max(math.log(ratio), -_MOST), _MOST) if ratio > 0 else -_MOST)
    return max(found)
