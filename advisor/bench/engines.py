"""Which engine serves the settings of a job."""

import os
import shutil
from pathlib import Path

from advisor.engine.attach import AttachEngine
from advisor.engine.container import NoDaemon, end_containers
from advisor.engine.device import find_devices
from advisor.engine.docker import DockerEngine
from advisor.engine.engine import Engine
from advisor.engine.leftovers import end_leftovers
from advisor.engine.vllm import VllmEngine
from advisor.terms.errors import EngineError, InputError
from advisor.terms.job import JobSpec

#: `sim` has no engine: nothing is served
ENGINES = ("sim", "vllm", "docker", "attach")


def end_all_leftovers() -> tuple[dict[str, str], list[str]]:
    """End what killed Advisors left on this machine, whatever engine it ran in.

    Returns what was ended (a process or a container, for a person) with its launch token, and
    what could not be looked at. Raises Blocked when something cannot be ended.
    """
    found = end_leftovers()
    ended = {f"process {pid}": token for pid, token in found.processes}
    docker = shutil.which("docker")
    if docker is None:
        return ended, []
    try:
        removed = end_containers(docker)
    except NoDaemon:
        return ended, []
    except EngineError as exc:
        return ended, [str(exc)]
    return ended | {f"container {id_[:12]}": token for id_, token in removed.items()}, []


def engines_of(spec: JobSpec, log_dir: Path) -> list[Engine]:
    """One for each set of GPUs, of any kind but `sim`.

    Raises InputError for a command, image, address or GPU that cannot be used, and for a GPU that
    goes by two names.
    """
    if spec.engine == "attach":
        return [AttachEngine(spec.vllm_command, spec.model, log_dir=log_dir)]
    engines = [_engine_of(spec, gpus, log_dir) for gpus in spec.gpu_sets]
    named = [word for gpus in spec.gpu_sets if gpus is not None for word in gpus.split(",")]
    names = {name for engine in engines for name in engine.devices.names()}
    if len(names) < len(named):
        raise InputError(
            f"gpu sets {spec.gpus!r}: an index and a UUID in it name one GPU; expected each once"
        )
    return engines


def _engine_of(spec: JobSpec, gpus: str | None, log_dir: Path) -> Engine:
    devices = find_devices(gpus, os.environ)
    if spec.engine == "docker":
        return DockerEngine(spec.vllm_command, log_dir=log_dir, gpus=gpus, devices=devices)
    # indices as NVML counts them: CUDA would put the fastest GPU first
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    visible = {} if gpus is None else {**order, "CUDA_VISIBLE_DEVICES": gpus}
    return VllmEngine(spec.vllm_command, log_dir=log_dir, extra_env=visible, devices=devices)
