"""`make accept`: what is too long for the gate, and every figure, on one tree.

Runs each step to its end, streams what it prints to stderr, and prints one JSON object: the
tree's hash, each step with its outcome and seconds, and what the soak and the benchmarks
printed. Exits 1 when a step failed.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    command: tuple[str, ...]
    #: it prints one JSON object
    prints_figures: bool = False


def make(target: str) -> Step:
    return Step(target, ("make", target))


def script(path: str, *options: str) -> Step:
    command = (sys.executable, str(ROOT / path), *options)
    return Step(Path(path).stem, command, prints_figures=True)


#: What holds on a machine however busy: the soak waits for servers most of the time, and the
#: simulator's bounds and the searches on it are found in virtual time, so these run side by side.
SIDE_BY_SIDE = (
    script("tests/soak.py"),
    script("benchmarks/coverage.py"),
    script("benchmarks/search_bank.py", "--samplers", "advisor,random"),
)
#: Checks and tests are left to the gate, which runs them on the same commit.
DEMO = make("demo")
#: The whole real suite instead of the gate's smoke.
REAL = make("test-real")


def main() -> int:
    done = [run(DEMO)]
    with ThreadPoolExecutor() as lanes:
        done += lanes.map(run, SIDE_BY_SIDE)
    done += map(run, (REAL, *timed_benchmarks()))
    failed = [step["name"] for step in done if step["exit_code"] != 0]
    print(json.dumps({"tree": tree(), "steps": done, "failed": failed}))
    return 1 if failed else 0


def timed_benchmarks() -> Iterable[Step]:
    """All that have not run side by side: they measure time."""
    taken = {step.name for step in SIDE_BY_SIDE}
    found = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if path.stem not in taken)
    return [script(str(path.relative_to(ROOT))) for path in found]


def run(step: Step) -> dict[str, Any]:
    """Its outcome; what it prints goes to stderr as it comes, figures at its end."""
    print(f"=== {step.name}", file=sys.stderr, flush=True)
    began = time.monotonic()
    stdout = subprocess.PIPE if step.prints_figures else sys.stderr
    ended = subprocess.run(step.command, cwd=ROOT, stdout=stdout, text=True, check=False)
    seconds = round(time.monotonic() - began, 1)
    told = {"name": step.name, "exit_code": ended.returncode, "seconds": seconds}
    if step.prints_figures:
        with contextlib.suppress(ValueError):  # of one that ended half-way
            told["figures"] = json.loads(ended.stdout)
        print(ended.stdout, file=sys.stderr, end="")
    print(f"=== {step.name}: {ended.returncode} after {seconds} s", file=sys.stderr, flush=True)
    return told


def tree() -> str:
    """Git's hash of the files that were tested; `+` when they are not all committed."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    hash_ = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    status = ["git", "status", "--porcelain"]
    changed = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=True)
    return hash_.stdout.strip() + ("+" if changed.stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())
