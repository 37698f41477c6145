"""The folder of the launches' logs: looked at before anything rests on it."""

import tempfile
from pathlib import Path

from advisor.terms.errors import InputError

#: More than a file system keeps beside a file's name: a full disk has no room for it.
_SAMPLE = b"\0" * 65_536


def check_logs(folder: Path) -> None:
    """Make the folder and see that a file can be written in it. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as sample:
            sample.write(_SAMPLE)
    except OSError as exc:
        raise InputError(f"data folder: cannot write logs in {folder}: {exc.strerror}") from exc
