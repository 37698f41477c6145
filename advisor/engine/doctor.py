"""What this machine has for `vllm serve`: facts, no judgement, nothing printed."""

import asyncio
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from advisor.engine import environment
from advisor.engine.command import read_version, resolve_command
from advisor.terms.errors import InputError

_FIELDS = "name,memory.total,memory.free,driver_version"
#: Compute capability of Ada, the first NVIDIA generation with fp8 tensor cores (NVIDIA's CUDA
#: programming guide); before it fp8 weights save memory and are computed in 16 bits.
_FIRST_FP8 = 8.9
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device as nvidia-smi lists it."""

    name: str
    memory_total_bytes: int
    memory_free_bytes: int
    driver: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found."""

    #: None when there is no such command, or it cannot say
    vllm_version: str | None
    #: why there is no version, one line; None when there is one
    vllm_problem: str | None
    #: empty on a machine without NVIDIA GPUs, or without nvidia-smi
    gpus: tuple[Gpu, ...]
    cpu: str
    cpu_cores: int
    memory_total_bytes: int
    memory_available_bytes: int
    #: where logs and the database go
    disk_free_bytes: int

    @property
    def hardware(self) -> str:
        """What a result was measured on."""
        return named(self.gpus, self.cpu, self.cpu_cores)


def named(gpus: Sequence[Gpu], cpu: str, cpu_cores: int) -> str:
    """`2x NVIDIA H200`, or the CPU and its cores."""
    if not gpus:
        return f"{cpu}, {cpu_cores} cores"
    names = dict.fromkeys(gpu.name for gpu in gpus)
    return " + ".join(f"{sum(gpu.name == name for gpu in gpus)}x {name}" for name in names)


async def hardware_name() -> str:
    """Of this machine, without asking the vLLM command anything."""
    return named(await list_gpus(), _cpu_name(), os.cpu_count() or 1)


async def examine(
    command: str | Sequence[str], disk_path: Path, *, version_timeout_s: float = 60.0
) -> Diagnosis:
    """Look at the command (by `--version`, bounded), the GPUs, the memory and the disk."""
    version: str | None = None
    problem: str | None = None
    variables = environment.clean(os.environ, {}).variables
    try:
        version = await read_version(resolve_command(command), variables, version_timeout_s)
    except InputError as exc:
        problem = str(exc)
    gpus = await list_gpus()
    memory = psutil.virtual_memory()
    return Diagnosis(
        vllm_version=version,
        vllm_problem=problem,
        gpus=gpus,
        cpu=_cpu_name(),
        cpu_cores=os.cpu_count() or 1,
        memory_total_bytes=memory.total,
        memory_available_bytes=memory.available,
        disk_free_bytes=shutil.disk_usage(_existing(disk_path)).free,
    )


async def list_gpus(executable: str = "nvidia-smi", timeout_s: float = 20.0) -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi lists; none when it is absent, fails, or takes too long."""
    return parse_gpus(await _query(_FIELDS, executable, timeout_s))


async def has_fp8(executable: str = "nvidia-smi", timeout_s: float = 20.0) -> bool:
    """Whether every GPU here computes in fp8; False where none is listed."""
    printed = await _query("compute_cap", executable, timeout_s)
    try:
        found = [float(line) for line in printed.splitlines() if line.strip()]
    except ValueError:
        return False  # an older nvidia-smi does not know the field, and so no such GPU
    return bool(found) and min(found) >= _FIRST_FP8


async def _query(fields: str, executable: str, timeout_s: float) -> str:
    """Comma-separated lines, one a GPU; empty when nvidia-smi cannot tell."""
    path = shutil.which(executable)
    if path is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        path,
        f"--query-gpu={fields}",
        "--format=csv,noheader,nounits",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return printed.decode(errors="replace") if process.returncode == 0 else ""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Lines `name, total MiB, free MiB, driver`; a line without numbers is left out."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 4 and cells[1].isdigit() and cells[2].isdigit():
            gpus.append(Gpu(cells[0], int(cells[1]) * _MIB, int(cells[2]) * _MIB, cells[3]))
    return tuple(gpus)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _existing(path: Path) -> Path:
    """The path, or the nearest parent that is there: a database's folder may be made later."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
