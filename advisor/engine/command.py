"""The `vllm` command itself: its words, its version, the flags that it knows."""

import hashlib
import json
import os
import re
import shlex
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from advisor.engine.leftovers import launch_folder
from advisor.engine.process import ServerProcess, new_token
from advisor.terms.errors import InputError

_FLAG = re.compile(r"(?<![\w-])--[a-z][\w.-]*", re.ASCII)
#: A help text with fewer flags, or without the one that every version has, is none of
#: `vllm serve`'s.
_FEWEST_FLAGS, _ALWAYS = 20, "--max-num-seqs"
#: `vllm --version` prints the bare number, the stand-in its name before it.
_VERSION = re.compile(r"(vllm-sim )?\d", re.ASCII)


def resolve_command(command: str | Sequence[str]) -> list[str]:
    """The words of the command, the first one as an absolute path. Raises InputError."""
    shown = command if isinstance(command, str) else shlex.join(command)
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as exc:
        raise InputError(
            f"--vllm-command {shown!r}: {exc}; expected the vllm executable with its arguments, "
            "quoted as in a shell"
        ) from exc
    if not "".join(words[:1]):
        raise InputError(
            f"--vllm-command {shown!r}: it is empty; expected the vllm executable, on PATH or as "
            "a path, or leave it out for `vllm`"
        )
    if words[-1] == "serve" or words[1:2] == ["serve"]:
        raise InputError(
            f"--vllm-command {shown!r}: expected what stands before `serve`; leave `serve` and "
            "what follows it out, flags go into --baseline"
        )
    path = os.path.expanduser(words[0])
    found = shutil.which(path)
    if found is None:
        named = os.path.dirname(path) and os.path.isfile(path)
        why = f"{words[0]} is not executable" if named else "no such command"
        raise InputError(
            f"--vllm-command {shown!r}: {why}; expected the vllm executable, on PATH or as a path"
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
    code, printed = await _output([*command, "--version"], variables, timeout_s)
    lines = [line for line in printed.splitlines() if line.strip()]
    if code is None:
        raise InputError(f"--vllm-command: {shown} took longer than {timeout_s:g} s")
    if code != 0 or not lines:
        said = lines[-1].strip() if lines else "nothing"
        raise InputError(f"--vllm-command: {shown} exited with {code} and said {said!r}")
    return lines[-1].strip()


async def known_flags(
    command: Sequence[str],
    version: str,
    variables: Mapping[str, str],
    timeout_s: float,
    cache: Path,
) -> frozenset[str] | None:
    """The words `--like-this` in `command serve --help=all`, or without `=all` for a release
    that does not take it; None when it does not tell.

    Asking takes 20 s, so the answer is kept in the folder `cache`, by path, version and time of
    the executable. Raises InputError for a command that neither lists flags of `vllm serve` nor
    has a version like vLLM's: many programs answer `--version`, and none of them would serve.
    """
    kept = cache / f"{_fingerprint(command, version)}.json"
    try:
        return frozenset(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        pass  # not asked yet
    for word in ("--help=all", "--help"):
        code, printed = await _output([*command, "serve", word], variables, timeout_s)
        flags = frozenset(_FLAG.findall(printed))
        if code == 0 and len(flags) >= _FEWEST_FLAGS and _ALWAYS in flags:
            _keep(kept, flags)
            return flags
        if code is None:
            break  # it would take as long once more
    if not _VERSION.match(version):
        raise InputError(
            f"--vllm-command {shlex.join(command)!r}: it lists no flags of `vllm serve`, and "
            f"`--version` says {version!r}; expected the vllm executable, on PATH or as a path"
        )
    return None


def check_flags(names: Iterable[tuple[str, str]], known: frozenset[str], version: str) -> None:
    """`names` are (where it was asked for, canonical name). Raises InputError for the first flag
    that this version has not, by name and version."""
    for where, name in names:
        # `--compilation-config.mode` sets a key of a JSON flag that is listed without it
        word = name.partition(".")[0].replace("_", "-")
        if f"--{word}" not in known and f"--no-{word}" not in known:
            raise InputError(
                f"{where}: --{word} is no flag of vLLM {version}; see `vllm serve --help=all`"
            )


def _keep(path: Path, flags: frozenset[str]) -> None:
    """Whole or not at all: another process may read it at any moment."""
    part = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(sorted(flags)), encoding="utf-8")
        part.replace(path)
    except OSError:
        # a folder that cannot be written costs the next job 20 s, this one nothing
        with suppress(OSError):
            part.unlink()


def _fingerprint(command: Sequence[str], version: str) -> str:
    stamps = [str(os.stat(word).st_mtime_ns) if os.path.exists(word) else "" for word in command]
    return hashlib.sha256(json.dumps([list(command), version, stamps]).encode()).hexdigest()[:24]


async def _output(
    argv: Sequence[str], variables: Mapping[str, str], timeout_s: float
) -> tuple[int | None, str]:
    """Exit status, None at the timeout, and what it printed. Raises InputError.

    It has a launch's token and folder: an Advisor that is killed meanwhile leaves nothing that
    the next one does not find.
    """
    process = ServerProcess(new_token())
    with launch_folder(process.token) as folder:
        log_path = folder / "printed"
        try:
            process.start(argv, {**variables, "TMPDIR": str(folder)}, log_path)
            code = await process.wait(timeout_s)
        except OSError as exc:
            shown = shlex.join(argv)
            raise InputError(f"--vllm-command: {shown} cannot be run: {exc.strerror}") from exc
        finally:
            process.kill()
        return code, log_path.read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    """A loopback TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
