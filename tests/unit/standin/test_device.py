"""Memory in a file, held by processes."""

import subprocess
import sys
from pathlib import Path

from advisor.standin.device import FakeDevice

TAKE = """
import sys
from pathlib import Path
from advisor.standin.device import FakeDevice
FakeDevice(Path(sys.argv[1])).take(5)
print("taken", flush=True)
sys.stdin.read()
"""


def test_memory_is_held_as_long_as_its_process_lives(tmp_path: Path) -> None:
    device = FakeDevice.create(tmp_path / "device", 100)
    assert (device.total_bytes, device.used_bytes) == (100, 0)
    argv = [sys.executable, "-c", TAKE, str(device.path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        device.take(7)
        assert device.used_bytes == 12
    # the other one has ended
    assert device.used_bytes == 7


def test_memory_that_nobody_gives_back(tmp_path: Path) -> None:
    device = FakeDevice.create(tmp_path / "device", 100)
    device.leave_taken(30)
    assert device.used_bytes == 30
    FakeDevice.create(device.path, 100)
    assert device.used_bytes == 0
