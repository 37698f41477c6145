"""A container of ours: found and removed by its label and its id, never by its name."""

import asyncio
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from advisor.engine.leftovers import owner_lives
from advisor.engine.process import ServerProcess, not_released
from advisor.terms.errors import EngineError

TOKEN_LABEL, HOST_LABEL = "advisor.launch", "advisor.host"
#: A client that the daemon does not answer.
_CLIENT_TIMEOUT_S = 120.0
_NO_DAEMON = "Cannot connect to the Docker daemon"


class NoDaemon(EngineError):
    """There is a client and no daemon, so no container either."""


class Container:
    """One launch: the container, and the two clients that follow its log and its end."""

    def __init__(self, docker: str, token: str) -> None:
        self.token = token
        self._docker = docker
        self._log, self._end = ServerProcess(token), ServerProcess(token)
        self._end_path: Path | None = None

    async def start(self, argv: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        """Raises EngineError with docker's own words when it refuses."""
        code, said = await _run(argv, variables)
        id_ = said.strip().splitlines()[-1] if said.strip() else ""
        if code != 0 or not id_:
            raise EngineError(f"docker run: {said.strip()[-500:] or f'exited with {code}'}")
        self._end_path = log.with_suffix(".exit")
        self._end_path.touch()
        self._end.start([self._docker, "wait", id_], os.environ, self._end_path)
        self._log.start([self._docker, "logs", "-f", id_], os.environ, log)

    @property
    def exit_code(self) -> int | None:
        """Of the server inside, as `docker wait` prints it."""
        if self._end_path is None or self._end.exit_code is None:
            return None
        said = self._end_path.read_text().split()
        # a container that is gone before it could be waited for ended all the same
        return int(said[-1]) if said and said[-1].isdigit() else 1

    def living(self) -> list[psutil.Process]:
        """Our clients; what is inside belongs to the daemon."""
        return self._log.living()

    def effort(self) -> tuple[float, int]:
        """Not known from outside: the log and the mounted caches show whether a start goes on."""
        return 0.0, 0

    async def stop(self, grace_s: float) -> None:
        """SIGTERM and SIGKILL by the daemon, then gone. Raises Blocked when it stays."""
        try:
            if ids := containers(self._docker, self.token):
                await _run([self._docker, "stop", "-t", str(round(grace_s)), *ids], os.environ)
        finally:
            # also when cut off, and also what `docker run` started without telling us its id
            self._remove()

    def _remove(self) -> None:
        try:
            left = remove(self._docker, containers(self._docker, self.token))
        finally:
            self._log.kill()
            self._end.kill()
            if self._end_path is not None:
                self._end_path.unlink(missing_ok=True)
        if left:
            raise not_released(f"container {', '.join(left)} cannot be removed")


def containers(docker: str, token: str) -> list[str]:
    """Ids of every container of a launch. Raises EngineError."""
    return [id_ for id_, found in _labelled(docker) if found == token]


def end_containers(docker: str) -> dict[str, str]:
    """Remove those whose Advisor, on this host, was killed; their ids, each with its token.

    Raises Blocked when one stays, EngineError when docker does not answer.
    """
    left = {id_: token for id_, token in _labelled(docker) if not owner_lives(token)}
    if stuck := remove(docker, list(left)):
        raise not_released(f"container {', '.join(stuck)} of a killed Advisor cannot be removed")
    return left


def remove(docker: str, ids: Sequence[str]) -> list[str]:
    """End them at once; the ids of those that stay."""
    if ids:
        _client([docker, "rm", "-f", *ids])
    return [id_ for id_, _ in _labelled(docker) if id_ in ids]


def this_host() -> str:
    """Where the pid in a token has its meaning."""
    try:
        return f"{platform.node()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return platform.node()


def _labelled(docker: str) -> list[tuple[str, str]]:
    """(id, token) of the containers that an Advisor on this host launched, running or not."""
    look = [docker, "ps", "-a", "--no-trunc", "--filter", f"label={HOST_LABEL}={this_host()}"]
    said = _client([*look, "--format", f'{{{{.ID}}}} {{{{.Label "{TOKEN_LABEL}"}}}}'])
    pairs = (line.split() for line in said.splitlines())
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]


def _client(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_CLIENT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise EngineError(f"{shlex.join(argv[:2])}: no answer from docker") from exc
    if done.returncode != 0:
        said = f"{shlex.join(argv[:2])}: {done.stderr.strip()[-500:]}"
        raise (NoDaemon if _NO_DAEMON in said else EngineError)(said)
    return done.stdout


async def _run(argv: Sequence[str], variables: Mapping[str, str]) -> tuple[int | None, str]:
    """To its end, however long: `run` may have to pull an image."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=dict(variables),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode(errors="replace")
