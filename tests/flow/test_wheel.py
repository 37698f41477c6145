"""The wheel alone, installed outside of the repository, finds its migrations and profiles."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.flow.command import ROOT, Advisor


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_wheel_runs_a_job_far_from_the_repository(tmp_path: Path) -> None:
    wheel = _build(tmp_path / "dist")
    inside = zipfile.ZipFile(wheel).namelist()
    assert "advisor/_migrations/env.py" in inside
    assert any(name.startswith("advisor/_migrations/versions/0001") for name in inside)
    for shipped in (ROOT / "profiles").glob("*.*"):
        assert f"advisor/_profiles/{shipped.name}" in inside
    assert not [name for name in inside if name.startswith("tests/")]
    home = tmp_path / "home"
    home.mkdir()
    advisor = Advisor(home, python=_install(wheel, tmp_path / "venv"), package=None)
    _assert_runs_the_wheel(advisor, tmp_path)
    ended = advisor.on_db(
        *("recommend", "--engine", "sim", "--model", "llama-3.1-8b", "--hardware", "h100-sxm"),
        *("--profile", "chat-shared-prefix", "--target", "ttft:p95<=1000ms"),
        *("--launches", "2", "--objective", "latency", "--json"),
    )
    assert ended.code == 0, ended
    assert ended.object["outcome"] in ("recommended", "keep_current")
    assert ended.object["simulated"] is True
    checked = advisor.on_db("db", "check", "--json")
    assert checked.object["state"] == "current"


def _build(folder: Path) -> Path:
    words = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _install(wheel: Path, venv: Path) -> str:
    """In a venv of its own, with the locked dependencies of this one.

    They are reached by a path file, whose folder's own path files are not read: so the tree that
    is installed here for editing is not there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    words = ("-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    subprocess.run([sys.executable, *words, str(wheel)], check=True, capture_output=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def _assert_runs_the_wheel(advisor: Advisor, folder: Path) -> None:
    words = [advisor.python, "-P", "-c", "import advisor; print(advisor.__file__)"]
    found = subprocess.run(words, cwd=advisor.home, check=True, capture_output=True, text=True)
    assert Path(found.stdout.strip()).is_relative_to(folder)
