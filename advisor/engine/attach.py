"""A server that someone else runs: measured as it is, never started, stopped or changed."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil

from advisor.engine import metrics
from advisor.engine.device import Devices, NoDevices
from advisor.engine.doctor import hardware_name
from advisor.engine.endpoint import Endpoint, get_json, read_launch, served_names
from advisor.engine.engine import Mark, unmarked
from advisor.engine.gpulock import hold
from advisor.engine.logs import check_logs
from advisor.terms.errors import EngineError, InputError, LaunchFailed
from advisor.terms.outcome import Failure, Reason
from advisor.terms.setting import Setting

#: Longer than a block of any KV cache, so that a repeat would be found in the cache.
_PROBE_TOKENS = 1024
_HERE = ("127.0.0.1", "::1", "localhost")


class _Theirs:
    """Their process is not ours to look at: that it lives, tokens show."""

    exit_code: int | None = None

    def living(self) -> list[psutil.Process]:
        return []


class AttachEngine:
    """Serves what runs at an address already."""

    kind = "attach"

    def __init__(self, url: str, model: str, *, log_dir: Path, timeout_s: float = 30.0) -> None:
        """`model` names the served model where the server has several.

        Raises InputError for what is no http address.
        """
        _check_address(url)
        self.devices: Devices = NoDevices()
        self._url = url.rstrip("/")
        self._model = model
        self._log_dir = log_dir
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def version(self) -> str:
        async with self._session() as session:
            said = await get_json(session, f"{self._url}/version") or {}
        if "version" not in said:
            raise InputError(f"--vllm-command {self._url}: no vLLM server answers /version there")
        return str(said["version"])

    async def hardware(self) -> str:
        """Of this machine where the server is on it; of another one nothing is known."""
        host = urlsplit(self._url).hostname or ""
        return await hardware_name() if host in _HERE else f"the host {host}"

    async def check_flags(self, names: Iterable[tuple[str, str]], version: str) -> None:
        """Its flags are what they are: none is set."""

    @contextmanager
    def hold(self, what: str) -> Iterator[None]:
        with hold([self._url], self._log_dir.parent / "locks", what):
            check_logs(self._log_dir)
            yield

    @asynccontextmanager
    async def serve(self, setting: Setting, mark: Mark = unmarked) -> AsyncIterator[Endpoint]:
        """The server as it is, whatever the setting says; its prefix cache is emptied where the
        server offers that. Nothing is started, so there is nothing to mark."""
        log_path = (
            self._log_dir / f"attach-{hashlib.sha256(self._url.encode()).hexdigest()[:8]}.log"
        )
        async with self._session() as session:
            name = self._name(await served_names(session, self._url))
            said = await empty_prefix_cache(session, self._url, name)
            _write(log_path, f"# attached to {self._url}\n# prefix cache: {said}\n")
            version = (await get_json(session, f"{self._url}/version") or {}).get("version")
            launch = await read_launch(session, self._url, setting, log_path, 0.0)
        yield Endpoint(
            self._url, name, None, launch, log_path, version and str(version), _Theirs()
        )

    def _name(self, served: list[str]) -> str:
        if self._model in served:
            return self._model
        if len(served) == 1:
            return served[0]
        message = f"{self._url} serves {', '.join(served) or 'no model'}, not {self._model}"
        raise LaunchFailed(Failure(Reason.WRONG_SERVER, message, "ready"))

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=self._timeout, trust_env=False)


def _check_address(url: str) -> None:
    """Raises InputError, which repeats no password."""
    expected = "--engine attach takes the address of a running server, e.g. http://127.0.0.1:8000"
    if "@" in url:
        raise InputError(f"--vllm-command: a user or password in it is never sent; {expected}")
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise InputError(f"--vllm-command {url!r}: {exc}; {expected}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise InputError(f"--vllm-command {url!r}: {expected}")
    try:
        reachable = parts.port != 0
    except ValueError:
        reachable = False
    if not reachable:
        raise InputError(f"--vllm-command {url!r}: the port is not from 1 to 65535; {expected}")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as exc:
        raise EngineError(f"{path} cannot be written: {exc.strerror}") from exc


async def empty_prefix_cache(session: aiohttp.ClientSession, base_url: str, name: str) -> str:
    """Ask for an empty prefix cache and see that it is; what came of it, for a person.

    A prompt is in the cache after it was sent once, so that a repeat counts as hits; after the
    reset it must not.
    """
    if await _hits_of_a_repeat(session, base_url, name) is None:
        return "not looked at, the server counts no hits"
    try:
        async with session.post(f"{base_url}/reset_prefix_cache") as response:
            if response.status == 404:
                return "kept, the server offers no reset"
            body = await response.json(content_type=None) if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        return f"kept, the reset failed: {exc or type(exc).__name__}"
    if isinstance(body, dict) and body.get("success") is False:
        return "kept, the server says that the reset did not succeed"
    again = await _hits_of_a_repeat(session, base_url, name)
    return "emptied" if again == 0 else "kept, although the server says that it was reset"


async def _hits_of_a_repeat(
    session: aiohttp.ClientSession, base_url: str, name: str
) -> float | None:
    """Prefix cache hits of one and the same prompt; None where none are counted."""
    before = await _hits(session, base_url)
    body = {"model": name, "prompt": [7] * _PROBE_TOKENS, "max_tokens": 1}
    try:
        async with session.post(f"{base_url}/v1/completions", json=body) as response:
            await response.read()
    except (aiohttp.ClientError, TimeoutError):
        return None
    # a count is written once the step is over, which may be after the answer
    await asyncio.sleep(0.2)
    after = await _hits(session, base_url)
    return None if before is None or after is None else after - before


async def _hits(session: aiohttp.ClientSession, base_url: str) -> float | None:
    try:
        samples = await metrics.fetch(session, base_url, metrics.of_facts)
    except EngineError:
        return None
    return metrics.facts(samples).prefix_cache_hits
