import os
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from advisor.store.owner import Owner


def test_this_process_is_alive_and_reads_back() -> None:
    owner = Owner.this_process()
    assert owner.pid == os.getpid()
    assert owner.is_alive() is True
    assert Owner.parse(owner.text) == owner
    assert str(owner).startswith(f"pid {os.getpid()} on ")


def test_a_later_process_of_the_same_pid_is_another_one() -> None:
    owner = Owner.this_process()
    assert replace(owner, started_s=owner.started_s - 60).is_alive() is False


def test_a_killed_process_is_dead_even_before_its_parent_asks() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        process = psutil.Process(child.pid)
        owner = replace(Owner.this_process(), pid=child.pid, started_s=process.create_time())
        assert owner.is_alive() is True
        child.kill()
        while process.status() != psutil.STATUS_ZOMBIE:
            pass
        assert owner.is_alive() is False
    finally:
        child.kill()
        child.wait()
    assert owner.is_alive() is False


def test_nothing_is_known_of_another_host() -> None:
    assert replace(Owner.this_process(), host="elsewhere/1").is_alive() is None


@pytest.mark.parametrize("text", ["", "host", "host 1", "host one 2.0"])
def test_other_text_is_no_owner(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Owner.parse(text)
