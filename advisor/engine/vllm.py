"""`vllm serve` as a process: one Setting becomes a serving Endpoint, and ends without a trace."""

import asyncio
import os
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from advisor.engine import environment
from advisor.engine.endpoint import Endpoint, is_healthy, prove_ours, read_launch, tail
from advisor.engine.failures import classify
from advisor.engine.process import ServerProcess, new_token, reap_orphans
from advisor.terms.errors import EngineError, InputError, LaunchFailed
from advisor.terms.outcome import Failure, Reason
from advisor.terms.setting import Setting

_POLL_S = 0.2
#: CPU time is summed over all of a launch's processes: not at every poll
_LOOK_EVERY_S = 5.0


class VllmEngine:
    """Starts servers with one `vllm` command, one at a time."""

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        log_dir: Path,
        extra_env: Mapping[str, str] | None = None,
        start_timeout_s: float = 1800.0,
        stall_timeout_s: float = 600.0,
        stop_grace_s: float = 20.0,
        version_timeout_s: float = 180.0,
    ) -> None:
        """`command` is what stands before `serve`, as words or as one shell-quoted text.

        Logs go to `log_dir`, which is made on the first launch. A start may take `start_timeout_s`
        (compiling for a new shape can take half an hour), and be idle for `stall_timeout_s`.
        Raises InputError when there is no such command.
        """
        self.command = resolve_command(command)
        self._log_dir = log_dir
        self._environment = environment.clean(os.environ, extra_env or {})
        self._start_timeout_s = start_timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._stop_grace_s = stop_grace_s
        self._version_timeout_s = version_timeout_s

    async def version(self) -> str:
        """What the command says of its version. Raises InputError when it cannot say."""
        return await read_version(
            self.command, self._environment.variables, self._version_timeout_s
        )

    @asynccontextmanager
    async def serve(self, setting: Setting) -> AsyncIterator[Endpoint]:
        """Launch the setting; on leaving, however that comes about, no process of it is left.

        Entering raises LaunchFailed when it does not come up, EngineError when it cannot even be
        run, and Blocked when processes of an
        Advisor that was killed cannot be ended; leaving raises Blocked when a process stays.
        """
        reap_orphans()
        process = ServerProcess(new_token())
        name = f"advisor-{process.token.rpartition('.')[2]}"
        port = free_port()
        argv = [*self.command, "serve", *setting.argv(), "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--served-model-name", name]
        try:
            started = time.monotonic()
            log_path = self._launch(process, name, argv)
            base_url = f"http://127.0.0.1:{port}"
            timeout = aiohttp.ClientTimeout(total=30)
            async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
                await self._until_ready(session, base_url, process, log_path)
                cold_start_s = time.monotonic() - started
                version = await prove_ours(session, base_url, name, process, log_path)
                launch = await read_launch(session, base_url, setting, log_path, cold_start_s)
            yield Endpoint(base_url, name, process.pid, launch, log_path, version, process)
        finally:
            # also what an interrupt cut off inside `start`: the token finds it
            await process.stop(self._stop_grace_s)

    def _launch(self, process: ServerProcess, name: str, argv: Sequence[str]) -> Path:
        path = self._log_dir / f"{name}.log"
        try:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            path.write_text(self._log_head(argv))
            process.start(argv, self._environment.variables, path)
        except OSError as exc:
            raise EngineError(
                f"{argv[0]} cannot be launched with its log at {path}: {exc}"
            ) from exc
        return path

    def _log_head(self, argv: Sequence[str]) -> str:
        head = f"# {shlex.join(argv)}\n"
        if self._environment.dropped:
            head += f"# not passed on: {', '.join(self._environment.dropped)}\n"
        return head

    async def _until_ready(
        self, session: aiohttp.ClientSession, url: str, process: ServerProcess, log_path: Path
    ) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        progress = _Progress(process, log_path)
        while (code := process.exit_code) is None:
            if await is_healthy(session, url):
                return
            if time.monotonic() > deadline:
                message = f"not ready {self._start_timeout_s:g} s after its start"
                raise _never_ready(Reason.START_TOO_SLOW, message, log_path)
            if progress.idle_s() > self._stall_timeout_s:
                message = f"not ready, and idle for {self._stall_timeout_s:g} s"
                raise _never_ready(Reason.START_STALLED, message, log_path)
            await asyncio.sleep(_POLL_S)
        raise LaunchFailed(classify(tail(log_path), code))


class _Progress:
    """Tells a start that works in silence from one that hangs: by its log and its CPU time."""

    def __init__(self, process: ServerProcess, log_path: Path) -> None:
        self._process = process
        self._log_path = log_path
        self._log_bytes = 0
        self._cpu_s = 0.0
        self._looked_at = self._moved_at = time.monotonic()

    def idle_s(self) -> float:
        """For how long neither the log grew nor a second of CPU time was used."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            log_bytes, cpu_s = self._log_path.stat().st_size, self._process.cpu_s()
            if log_bytes != self._log_bytes or abs(cpu_s - self._cpu_s) >= 1:
                self._log_bytes, self._cpu_s, self._moved_at = log_bytes, cpu_s, now
        return now - self._moved_at


def _never_ready(reason: Reason, message: str, log_path: Path) -> LaunchFailed:
    return LaunchFailed(Failure(reason, message, "ready", tail(log_path, lines=20)))


def resolve_command(command: str | Sequence[str]) -> list[str]:
    """The words of the command, the first one as an absolute path. Raises InputError."""
    shown = command if isinstance(command, str) else shlex.join(command)
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as exc:
        raise InputError(f"--vllm-command {shown!r}: {exc}") from exc
    found = shutil.which(os.path.expanduser(words[0])) if words else None
    if found is None:
        raise InputError(
            f"--vllm-command {shown!r}: no such command; expected the vllm executable, on PATH "
            "or as a path"
        )
    return [os.path.abspath(found), *words[1:]]


async def read_version(
    command: Sequence[str], variables: Mapping[str, str], timeout_s: float
) -> str:
    """The last line of `command --version` (vLLM takes 10 to 20 s for it).

    `variables` is the environment it runs in. Raises InputError when the command fails or takes
    longer than `timeout_s`.
    """
    shown = shlex.join([*command, "--version"])
    process = ServerProcess(new_token())
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        log_path = Path(folder) / "version.log"
        try:
            process.start([*command, "--version"], variables, log_path)
            code = await process.wait(timeout_s)
        except OSError as exc:
            raise InputError(f"--vllm-command: {shown} cannot be run: {exc.strerror}") from exc
        finally:
            process.kill()
        lines = [line for line in tail(log_path).splitlines() if line.strip()]
    if code is None:
        raise InputError(f"--vllm-command: {shown} took longer than {timeout_s:g} s")
    if code != 0 or not lines:
        said = lines[-1].strip() if lines else "nothing"
        raise InputError(f"--vllm-command: {shown} exited with {code} and said {said!r}")
    return lines[-1].strip()


def free_port() -> int:
    """A loopback TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
