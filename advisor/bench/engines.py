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
from advisor.terms.errors import EngineError
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


def engine_of(spec: JobSpec, log_dir: Path) -> Engine:
    """Of any kind but `sim`. Raises InputError for a command, image, address or GPU that cannot
    be used."""
    if spec.engine == "attach":
        return AttachEngine(spec.vllm_command, spec.model, log_dir=log_dir)
    devices = find_devices(spec.gpus, os.environ)
    if spec.engine == "docker":
        return DockerEngine(spec.vllm_command, log_dir=log_dir, gpus=spec.gpus, devices=devices)
    visible = {} if spec.gpus is None else {"CUDA_VISIBLE_DEVICES": spec.gpus}
    return VllmEngine(spec.vllm_command, log_dir=log_dir, extra_env=visible, devices=devices)
