"""`make accept`: every check and every figure, on one tree.

Runs each step to its end, streams what it prints to stderr, and prints one JSON object: the
tree's hash, each step with its outcome and seconds, and what the soak and the benchmarks
printed. Exits 1 when a step failed.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: (name, command): the gate's steps and the whole real suite instead of its smoke.
STEPS = [(name, ["make", name]) for name in ("check", "test", "slow", "demo", "test-real")]


def main() -> int:
    steps = [run(name, command) for name, command in STEPS]
    scripts = [ROOT / "tests" / "soak.py", *sorted((ROOT / "benchmarks").glob("*.py"))]
    benchmarks = [bench(script) for script in scripts]
    failed = [step["name"] for step in (*steps, *benchmarks) if step["exit_code"] != 0]
    print(json.dumps({"tree": tree(), "steps": steps, "benchmarks": benchmarks, "failed": failed}))
    return 1 if failed else 0


def run(name: str, command: list[str]) -> dict[str, Any]:
    """One step; its output goes to stderr as it comes."""
    print(f"=== {name}", file=sys.stderr, flush=True)
    began = time.monotonic()
    ended = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    seconds = round(time.monotonic() - began, 1)
    return {"name": name, "exit_code": ended.returncode, "seconds": seconds}


def bench(script: Path) -> dict[str, Any]:
    """One benchmark, or the soak, with the object that it printed."""
    print(f"=== {script.name}", file=sys.stderr, flush=True)
    command = [sys.executable, str(script)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    figures = json.loads(ended.stdout) if ended.returncode == 0 else None
    return {"name": script.stem, "exit_code": ended.returncode, "figures": figures}


def tree() -> str:
    """Git's hash of the files that were tested; `+` when they are not all committed."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    hash_ = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    status = ["git", "status", "--porcelain"]
    changed = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=True)
    return hash_.stdout.strip() + ("+" if changed.stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())
