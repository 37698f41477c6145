"""A script's folder comes first where Python looks for modules: names of neighbours matter."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_a_benchmark_does_not_stand_in_for_the_package_of_its_name() -> None:
    look = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import numba, advisor.sim"
    ended = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 0, ended.stderr
