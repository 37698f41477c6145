"""Which engine serves the settings of a job."""

import os
from pathlib import Path

from advisor.engine.attach import AttachEngine
from advisor.engine.device import find_devices
from advisor.engine.docker import DockerEngine
from advisor.engine.engine import Engine
from advisor.engine.vllm import VllmEngine
from advisor.terms.job import JobSpec

#: `sim` has no engine: nothing is served
ENGINES = ("sim", "vllm", "docker", "attach")


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
