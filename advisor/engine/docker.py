"""vLLM from a container image, as one Setting becomes a serving Endpoint."""

import os
import shlex
import shutil
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from advisor.engine import environment
from advisor.engine.command import check_flags, free_port, known_flags, read_version
from advisor.engine.container import HOST_LABEL, TOKEN_LABEL, Container, end_containers, this_host
from advisor.engine.device import Devices, NoDevices
from advisor.engine.doctor import hardware_name
from advisor.engine.endpoint import Endpoint, prove_ours, read_launch
from advisor.engine.engine import Mark, unmarked
from advisor.engine.gpulock import hold
from advisor.engine.leftovers import end_leftovers
from advisor.engine.logs import check_logs
from advisor.engine.memory import Memory
from advisor.engine.process import new_token
from advisor.engine.start import StartLimits, until_ready
from advisor.engine.vllm import cache_folders
from advisor.terms.errors import EngineError, InputError
from advisor.terms.setting import Setting

_PORT = 8000
#: Variables of vLLM, the Hub and NCCL mean the same inside; paths and devices do not.
_PASSED_ON = ("VLLM_", "HF_", "HUGGING_FACE_", "TRANSFORMERS_", "NCCL_", "DO_NOT_TRACK")
_OUTSIDE_ONLY = frozenset({"HF_HOME", "VLLM_CACHE_ROOT"})


class DockerEngine:
    """Runs servers from one image, one at a time, through the `docker` on PATH."""

    kind = "docker"

    def __init__(
        self,
        image: str | Sequence[str],
        *,
        log_dir: Path,
        gpus: str | None = None,
        extra_env: Mapping[str, str] | None = None,
        devices: Devices | None = None,
        start_timeout_s: float = 1800.0,
        stall_timeout_s: float = 600.0,
        stop_grace_s: float = 20.0,
        version_timeout_s: float = 600.0,
        quiet_timeout_s: float = 300.0,
        release_timeout_s: float = 120.0,
    ) -> None:
        """`image` is the image, with options of `docker run` before it where it needs any, e.g.
        `-v /models:/models vllm/vllm-openai:v0.33.0`. `gpus` as CUDA_VISIBLE_DEVICES has them.

        Asking for the version may have to pull the image first. Raises InputError.
        """
        self._options, self._image = _words(image)
        self._docker = _docker_on_path()
        self.devices: Devices = devices or NoDevices()
        self._gpus = gpus
        self._log_dir = log_dir
        self._environment = environment.clean(os.environ, extra_env or {})
        self._limits = StartLimits(start_timeout_s, stall_timeout_s)
        self._stop_grace_s = stop_grace_s
        self._version_timeout_s = version_timeout_s
        self._memory = Memory(self.devices, quiet_timeout_s, release_timeout_s)

    async def version(self) -> str:
        return await read_version(self._inside(), os.environ, self._version_timeout_s)

    async def hardware(self) -> str:
        return await hardware_name()

    async def check_flags(self, names: Iterable[tuple[str, str]], version: str) -> None:
        cache = self._log_dir.parent / "flags"
        known = await known_flags(
            self._inside(), version, os.environ, self._version_timeout_s, cache
        )
        if known is not None:
            check_flags(names, known, version)

    @contextmanager
    def hold(self, what: str) -> Iterator[None]:
        with hold(self.devices.names(), self._log_dir.parent / "locks", what):
            check_logs(self._log_dir)
            end_leftovers()
            try:
                end_containers(self._docker)
            except EngineError as exc:
                raise InputError(
                    f"engine docker: {exc}; it takes a Docker daemon that runs and that this user "
                    "may use (see `docker info`), or --engine vllm with a --vllm-command"
                ) from exc
            yield

    @asynccontextmanager
    async def serve(self, setting: Setting, mark: Mark = unmarked) -> AsyncIterator[Endpoint]:
        end_leftovers()
        end_containers(self._docker)
        async with self._memory.around():
            container = Container(self._docker, new_token())
            mark(container.token)
            try:
                yield await self._up(setting, container)
            finally:
                await container.stop(self._stop_grace_s)

    async def _up(self, setting: Setting, container: Container) -> Endpoint:
        name = f"advisor-{container.token.rpartition('.')[2]}"
        port = free_port()
        log_path = self._log_dir / f"{name}.log"
        argv = self.argv(setting, container.token, name, port)
        started = time.monotonic()
        try:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            log_path.write_text(f"# {shlex.join(argv)}\n")
            await container.start(argv, {**os.environ, **self._environment.variables}, log_path)
        except OSError as exc:
            raise EngineError(
                f"{self._docker} cannot be run with its log at {log_path}: {exc.strerror}"
            ) from exc
        base_url = f"http://127.0.0.1:{port}"
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            grows = cache_folders(self._environment.variables)
            await until_ready(session, base_url, container, log_path, self._limits, grows)
            cold_start_s = time.monotonic() - started
            version = await prove_ours(session, base_url, name, container, log_path)
            launch = await read_launch(session, base_url, setting, log_path, cold_start_s)
        return Endpoint(base_url, name, None, launch, log_path, version, container)

    def argv(self, setting: Setting, token: str, name: str, port: int) -> list[str]:
        """`docker run …` of one launch; the image's own entrypoint is the server."""
        labels = (f"{TOKEN_LABEL}={token}", f"{HOST_LABEL}={this_host()}")
        argv = [self._docker, "run", "--rm", "-d", "--ipc=host"]
        argv += [word for label in labels for word in ("--label", label)]
        argv += self._gpu_words()
        argv += ["-p", f"127.0.0.1:{port}:{_PORT}"]
        hub, compiled = cache_folders(self._environment.variables)
        argv += ["-v", f"{hub}:/root/.cache/huggingface", "-v", f"{compiled}:/root/.cache/vllm"]
        model = Path(setting.model).expanduser()
        if model.is_dir():
            argv += ["-v", f"{model.absolute()}:{model.absolute()}:ro"]
        # by name alone: a token's value has no place on a command line
        names = [n for n in self._environment.variables if n.startswith(_PASSED_ON)]
        argv += [w for n in sorted({*names} - _OUTSIDE_ONLY) for w in ("-e", n)]
        checkpoint, *flags = setting.argv()
        model_word = str(model.absolute()) if model.is_dir() else checkpoint
        argv += [*self._options, self._image, "--model", model_word, *flags]
        return [*argv, "--host", "0.0.0.0", "--port", str(_PORT), "--served-model-name", name]

    def _gpu_words(self) -> list[str]:
        if self._gpus is not None:
            # the quotes are part of the value: docker reads it as a line of CSV
            return ["--gpus", f'"device={self._gpus}"']
        return ["--gpus", "all"] if self.devices.names() else []

    def _inside(self) -> list[str]:
        run = [self._docker, "run", "--rm", "--entrypoint", "vllm"]
        return [*run, *self._options, self._image]


def _words(image: str | Sequence[str]) -> tuple[list[str], str]:
    try:
        words = shlex.split(image) if isinstance(image, str) else list(image)
    except ValueError as exc:
        raise InputError(
            f"--vllm-command {image!r}: {exc}; expected an image with its options, quoted as in a "
            "shell"
        ) from exc
    if not words or words == ["vllm"] or words[-1].startswith("-"):
        raise InputError(
            f"--vllm-command {image!r}: --engine docker takes an image, e.g. "
            "vllm/vllm-openai:v0.33.0, with options of `docker run` before it if it needs any"
        )
    return words[:-1], words[-1]


def _docker_on_path() -> str:
    found = shutil.which("docker")
    if found is None:
        raise InputError("engine docker: there is no command `docker` on PATH")
    return found
