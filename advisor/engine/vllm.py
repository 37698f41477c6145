"""`vllm serve` as a process: one Setting becomes a serving Endpoint, and ends without a trace."""

import getpass
import os
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from advisor.engine import environment
from advisor.engine.command import (
    check_flags,
    free_port,
    known_flags,
    read_version,
    resolve_command,
)
from advisor.engine.device import Devices, NoDevices
from advisor.engine.doctor import hardware_name
from advisor.engine.endpoint import Endpoint, prove_ours, read_launch
from advisor.engine.engine import Mark, unmarked
from advisor.engine.gpulock import hold
from advisor.engine.leftovers import end_leftovers, launch_folder
from advisor.engine.logs import check_logs
from advisor.engine.memory import Memory
from advisor.engine.process import ServerProcess, new_token
from advisor.engine.start import StartLimits, until_ready
from advisor.terms.errors import EngineError
from advisor.terms.setting import Setting


class VllmEngine:
    """Starts servers with one `vllm` command, one at a time."""

    kind = "vllm"

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        log_dir: Path,
        extra_env: Mapping[str, str] | None = None,
        devices: Devices | None = None,
        start_timeout_s: float = 1800.0,
        stall_timeout_s: float = 600.0,
        stop_grace_s: float = 20.0,
        version_timeout_s: float = 180.0,
        quiet_timeout_s: float = 300.0,
        release_timeout_s: float = 120.0,
    ) -> None:
        """`command` is what stands before `serve`, as words or as one shell-quoted text.

        Logs go to `log_dir`, which is made on the first launch. A start may take `start_timeout_s`
        (compiling for a new shape can take half an hour), and be idle for `stall_timeout_s`.
        Memory may take `quiet_timeout_s` to be quiet after another process held it, and
        `release_timeout_s` to come back after a stop. Raises InputError when there is no such
        command.
        """
        self.command = resolve_command(command)
        self.devices: Devices = devices or NoDevices()
        self._log_dir = log_dir
        self._environment = environment.clean(os.environ, extra_env or {})
        self._limits = StartLimits(start_timeout_s, stall_timeout_s)
        self._stop_grace_s = stop_grace_s
        self._version_timeout_s = version_timeout_s
        self._memory = Memory(self.devices, quiet_timeout_s, release_timeout_s)

    async def version(self) -> str:
        """What the command says of its version. Raises InputError when it cannot say."""
        return await read_version(
            self.command, self._environment.variables, self._version_timeout_s
        )

    async def hardware(self) -> str:
        return await hardware_name()

    async def check_flags(self, names: Iterable[tuple[str, str]], version: str) -> None:
        """Hold (where asked for, flag) against the command's own list, nothing launched.

        Raises InputError for the first that it does not know; a command without a list that can
        be read knows every flag.
        """
        known = await known_flags(
            self.command,
            version,
            self._environment.variables,
            self._version_timeout_s,
            self._log_dir.parent / "flags",
        )
        if known is not None:
            check_flags(names, known, version)

    @contextmanager
    def hold(self, what: str) -> Iterator[None]:
        """Keep the devices for this process alone, rid of what a killed one left on them.

        Raises Blocked that names who has one, or what cannot be ended, and InputError for a
        folder of logs that cannot be used.
        """
        with hold(self.devices.names(), self._log_dir.parent / "locks", what):
            check_logs(self._log_dir)
            end_leftovers()
            yield

    @asynccontextmanager
    async def serve(self, setting: Setting, mark: Mark = unmarked) -> AsyncIterator[Endpoint]:
        """Launch the setting; on leaving, however that comes about, no process of it is left.

        Entering raises LaunchFailed when it does not come up, EngineError when it cannot even be
        run, and Blocked when processes of an Advisor that was killed cannot be ended; leaving
        raises Blocked when a process stays or the devices' memory does not come back.
        """
        end_leftovers()
        async with self._memory.around():
            process = ServerProcess(new_token())
            mark(process.token)
            with launch_folder(process.token) as folder:
                try:
                    yield await self._up(setting, process, folder)
                finally:
                    # also what an interrupt cut off inside `start`: the token finds it
                    await process.stop(self._stop_grace_s)

    async def _up(self, setting: Setting, process: ServerProcess, folder: Path) -> Endpoint:
        name = f"advisor-{process.token.rpartition('.')[2]}"
        port = free_port()
        argv = [*self.command, "serve", *setting.argv(), "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--served-model-name", name]
        base_url = f"http://127.0.0.1:{port}"
        started = time.monotonic()
        log_path = self._launch(process, name, argv, folder)
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            grows = [folder, *cache_folders(self._environment.variables)]
            await until_ready(session, base_url, process, log_path, self._limits, grows)
            cold_start_s = time.monotonic() - started
            version = await prove_ours(session, base_url, name, process, log_path)
            launch = await read_launch(session, base_url, setting, log_path, cold_start_s)
        return Endpoint(base_url, name, process.pid, launch, log_path, version, process)

    def _launch(
        self, process: ServerProcess, name: str, argv: Sequence[str], folder: Path
    ) -> Path:
        path = self._log_dir / f"{name}.log"
        try:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            path.write_text(self._log_head(argv))
            process.start(argv, with_folder(self._environment.variables, folder), path)
        except OSError as exc:
            raise EngineError(
                f"{argv[0]} cannot be launched with its log at {path}: {exc.strerror}"
            ) from exc
        return path

    def _log_head(self, argv: Sequence[str]) -> str:
        head = f"# {shlex.join(argv)}\n"
        if self._environment.dropped:
            head += f"# not passed on: {', '.join(self._environment.dropped)}\n"
        return head


def with_folder(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Temporary files go to the launch's own folder, and what is compiled stays for the next."""
    compiled = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    return {"TORCHINDUCTOR_CACHE_DIR": str(compiled), **variables, "TMPDIR": str(folder)}


def cache_folders(variables: Mapping[str, str]) -> list[Path]:
    """Where a silent start downloads to or compiles into (the defaults of vLLM and the Hub)."""
    home = Path(variables.get("HOME", "/"))
    cache = Path(variables.get("XDG_CACHE_HOME", home / ".cache"))
    hub = Path(variables.get("HF_HOME", cache / "huggingface"))
    return [hub, Path(variables.get("VLLM_CACHE_ROOT", cache / "vllm"))]
