"""Where a report may be written, told before anything is launched."""

from pathlib import Path

import pytest

from advisor.cli.report import check_report
from advisor.terms.errors import InputError


@pytest.mark.parametrize("content", [b"SQLite format 3\x00", b"[variants.a]\n", b"<!doctype xml>"])
def test_what_is_no_report_is_not_replaced(content: bytes, tmp_path: Path) -> None:
    """Such as the ledger that the job is written to."""
    path = tmp_path / "advisor.db"
    path.write_bytes(content)
    with pytest.raises(InputError, match="it is there and is no report; expected a new name"):
        check_report(str(path))
    check_report(str(path), force=True)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>\n<html>"])
def test_an_earlier_report_is_replaced(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    check_report(str(path))
    path.write_bytes(content)
    check_report(str(path))
    check_report(None)


def test_a_folder_that_cannot_be_written_to_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(InputError, match="its folder cannot be written to"):
        check_report(str(tmp_path / "report.html"))
