"""A server that is up: what is known of it, and how it is asked whether it still lives."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp

from advisor.engine import metrics, resolved
from advisor.engine.failures import classify
from advisor.engine.process import Running
from advisor.terms.errors import EngineError, LaunchFailed
from advisor.terms.job import Launch
from advisor.terms.outcome import Failure, Reason
from advisor.terms.setting import Setting

#: a start writes some hundred lines; of a long run the end tells why it ended
_LOG_BYTES = 2_000_000
#: of a living server: an engine that dies says so within its last words
_LATEST_BYTES = 65_536
_ENGINE_DEAD = ("EngineCore encountered a fatal error", "EngineDeadError")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address that one Setting serves at."""

    base_url: str
    #: also proves whose server it is: no other has this name
    served_model_name: str
    #: of the process that was started, the leader of its session; None where that is not ours
    pid: int | None
    launch: Launch
    log_path: Path
    #: as `/version` says, None where it does not
    version: str | None
    process: Running = field(repr=False, compare=False)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the server's log."""
        return tail(self.log_path, lines=lines)

    def failure(self) -> Failure | None:
        """Why it is dead, or None while its processes and its engine live.

        `/health` cannot tell: it is answered by the API process, also when the engine is gone.
        Cheap enough to be asked every second on the loop that stamps times: it reads the last
        64 KB of the log.
        """
        code = self.process.exit_code
        if code is None:
            latest = tail(self.log_path, last_bytes=_LATEST_BYTES)
            if not any(text in latest for text in _ENGINE_DEAD):
                return None
        return classify(tail(self.log_path), code, under_load=True)

    async def probe(self, timeout_s: float) -> Failure | None:
        """Ask for one token; the Failure (`hung` when it does not come in time), else None."""
        body = {"model": self.served_model_name, "prompt": [2], "max_tokens": 1}
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.post(f"{self.base_url}/v1/completions", json=body) as response,
            ):
                status, said = response.status, await response.text()
        except TimeoutError:
            message = f"no token within {timeout_s:g} s"
            return self.failure() or Failure(Reason.HUNG, message, "load", self.log_tail())
        except aiohttp.ClientError as exc:
            status, said = 0, str(exc)
        if status == 200:
            return None
        message = f"a request for one token ended with HTTP {status}: {said[:300]}"
        unknown = Failure(Reason.CRASHED_UNDER_LOAD, message, "load", self.log_tail())
        return self.failure() or unknown


def tail(path: Path, *, lines: int | None = None, last_bytes: int = _LOG_BYTES) -> str:
    """The end of a log: its last `lines`, or all of its `last_bytes`. Raises EngineError."""
    with _readable(path) as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - last_bytes))
        text = log.read().decode(errors="replace")
    return text if lines is None else "\n".join(text.splitlines()[-lines:])


def read_from(path: Path, offset: int) -> str:
    """A log from there to its end, at most its last 2 MB. Raises EngineError."""
    with _readable(path) as log:
        log.seek(max(offset, log.seek(0, 2) - _LOG_BYTES))
        return log.read().decode(errors="replace")


@contextmanager
def _readable(path: Path) -> Iterator[BinaryIO]:
    try:
        with open(path, "rb") as log:
            yield log
    except OSError as exc:
        raise EngineError(f"the log {path} cannot be read: {exc.strerror}") from exc


async def is_healthy(session: aiohttp.ClientSession, base_url: str) -> bool:
    """Whether `/health` answers 200 within two seconds."""
    try:
        timeout = aiohttp.ClientTimeout(total=2)
        async with session.get(f"{base_url}/health", timeout=timeout) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def prove_ours(
    session: aiohttp.ClientSession,
    base_url: str,
    name: str,
    process: Running,
    log_path: Path,
) -> str | None:
    """See that the server at the address is the one just started; returns its `/version`.

    Raises LaunchFailed: `wrong_server`, or why ours died when it did.
    """
    names = await served_names(session, base_url)
    if (code := process.exit_code) is not None:
        raise LaunchFailed(classify(tail(log_path), code))
    if name not in names:
        message = f"{base_url} serves {', '.join(names) or 'no model'}, not {name}: not ours"
        raise LaunchFailed(
            Failure(Reason.WRONG_SERVER, message, "ready", tail(log_path, lines=20))
        )
    version = (await get_json(session, f"{base_url}/version") or {}).get("version")
    return None if version is None else str(version)


async def served_names(session: aiohttp.ClientSession, base_url: str) -> list[str]:
    """What `/v1/models` lists; empty where it does not answer."""
    listed = (await get_json(session, f"{base_url}/v1/models") or {}).get("data")
    known = listed if isinstance(listed, list) else []
    return [str(model.get("id")) for model in known if isinstance(model, dict)]


async def read_launch(
    session: aiohttp.ClientSession,
    base_url: str,
    setting: Setting,
    log_path: Path,
    cold_start_s: float,
) -> Launch:
    """Read back what the server runs with. Raises LaunchFailed when it stopped answering."""
    info = await get_json(session, f"{base_url}/server_info?config_format=json") or {}
    try:
        samples = await metrics.fetch(session, base_url)
    except EngineError:
        samples = {}  # optional: another server with the same flags need not export metrics
    log = tail(log_path)
    values = resolved.read_back(setting, info, samples, log)
    return Launch(
        resolved=values,
        cold_start_s=round(cold_start_s, 3),
        kv_cache_tokens=resolved.kv_cache_tokens(info, samples, log),
        ignored=resolved.ignored(setting, values),
    )


async def get_json(session: aiohttp.ClientSession, url: str) -> dict[str, Any] | None:
    """The object at `url`; None when there is none: these routes differ between versions."""
    try:
        async with session.get(url) as response:
            body = json.loads(await response.text()) if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    return body if isinstance(body, dict) else None
