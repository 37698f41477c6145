"""Before a job is opened: its profile is rehearsed, so that its bounds hold what they claim."""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from platformdirs import user_cache_dir

from advisor.bench.rehearse import SEGMENTS, SHARES, WINDOWS, rehearse
from advisor.measure.looks import level
from advisor.measure.rehearsal import HALVINGS, PART, POOLS, SLACK, STRETCH
from advisor.sim.config import EngineConfig, resolve
from advisor.sim.flagvalues import modelled
from advisor.sim.hardware import hardware, hardware_names
from advisor.sim.models import model
from advisor.store.serde import dump, load
from advisor.terms.calibration import Calibration
from advisor.terms.errors import InputError, LaunchFailed, LedgerError
from advisor.terms.job import EngineInfo, JobSpec
from advisor.terms.setting import Setting
from advisor.terms.target import Metric
from advisor.tune.confirmation import claims
from advisor.wiring.prepare import Prepared

#: What a driver calls a device -> what the simulator does; the longer names first.
_DEVICES = (
    ("H100 80GB HBM3", "h100-sxm"),
    ("H100 PCIe", "h100-pcie"),
    ("H100 NVL", "h100-nvl"),
    ("H200", "h200"),
    ("B200", "b200"),
    ("A100-SXM4-80GB", "a100-80gb-sxm"),
    ("A100-SXM4-40GB", "a100-40gb-sxm"),
    ("L40S", "l40s"),
    ("L4", "l4"),
    ("GeForce RTX 4090", "rtx-4090"),
    ("GeForce RTX 5090", "rtx-5090"),
    ("RTX PRO 6000", "rtx-pro-6000"),
)
#: Raised with anything that changes what a rehearsal finds: the simulator, windows, bounds.
VERSION = 4


def rehearsed(prepared: Prepared, engine: EngineInfo) -> Prepared:
    """With the job's calibration, from the cache where this profile and plan were rehearsed.

    As it is where the simulator knows nothing of the server: its verdicts stay at their nominal
    level, and the advice says so.
    """
    spec = prepared.spec
    config = server_of(prepared, engine)
    asked = sorted(
        {(t.metric, t.percentile) for t in spec.targets if t.metric is not Metric.ERRORS}
    )
    points = [(metric, percentile) for metric, percentile in asked if percentile is not None]
    if config is None or not points:
        return prepared
    levels = (spec.confidence, level(spec.confidence, claims(spec)))
    path = _cache_path(prepared, config, points, levels)
    calibration = _cached(path)
    if calibration is None:
        calibration = rehearse(
            prepared.profile,
            prepared.split.windows,
            config,
            points,
            levels,
            load=spec.load,
            # of the profile, not of the job: the next job with it shall find this one's
            seed=int(spec.profile_sha256[:8], 16),
        )
        _keep(path, calibration)
    return replace(prepared, spec=replace(spec, calibration=calibration))


def server_of(prepared: Prepared, engine: EngineInfo) -> EngineConfig | None:
    """The baseline as the simulator runs it, without flags that it does not model, or the model
    with vLLM's defaults where that does not start; None for a model or hardware that it does not
    know."""
    spec = prepared.spec
    device = spec.hardware or _device(engine.hardware)
    if device not in hardware_names():
        return None
    try:
        model(spec.model)
    except InputError:
        return None
    known = Setting.of(spec.model, modelled(dict(prepared.baseline.flags)))
    for setting in (known, Setting.of(spec.model, {}, ())):
        with contextlib.suppress(LaunchFailed):
            return resolve(setting, hardware(device))
    return None


def _device(reported: str) -> str | None:
    """The simulator's name for what this machine has, None where it has none."""
    return next((name for words, name in _DEVICES if words in reported), None)


def _cache_path(
    prepared: Prepared,
    config: EngineConfig,
    points: Sequence[tuple[Metric, float]],
    levels: tuple[float, ...],
) -> Path:
    windows = prepared.split.windows
    lengths = [window.duration_ns for window in windows.search]
    spec: JobSpec = prepared.spec
    told = json.dumps(
        [
            (VERSION, SHARES, WINDOWS, SEGMENTS, POOLS, HALVINGS, PART, STRETCH, SLACK),
            (spec.profile_sha256, lengths, windows.gap_ns, spec.load),
            (config.model.name, config.hardware.name, sorted(config.resolved_flags().items())),
            (points, levels),
        ]
    )
    name = hashlib.sha256(told.encode()).hexdigest()[:24]
    return Path(user_cache_dir("advisor")) / "rehearsals" / f"{name}.json"


def _cached(path: Path) -> Calibration | None:
    try:
        return load(Calibration, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, LedgerError):
        return None  # not there, or damaged: it is made again


def _keep(path: Path, calibration: Calibration) -> None:
    # a folder that cannot be written costs the next job a minute, this one nothing
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".new")
        written.write_text(json.dumps(dump(Calibration, calibration)), encoding="utf-8")
        written.replace(path)
