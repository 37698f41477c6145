"""Which addresses a server may be attached to at; the rest is the engines' common contract."""

from pathlib import Path

import pytest

from advisor.engine.attach import AttachEngine
from advisor.terms.errors import InputError


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("127.0.0.1:8000", "'127.0.0.1:8000': --engine attach takes"),
        ("http://:8000", "'http://:8000': --engine attach takes"),
        ("http://[::1", "'http://[::1': Invalid IPv6 URL"),
        ("http://127.0.0.1:99999", "'http://127.0.0.1:99999': the port is not from 1 to 65535"),
        ("http://127.0.0.1:0", "the port is not from 1 to 65535"),
        ("http://127.0.0.1:http", "the port is not from 1 to 65535"),
    ],
)
def test_what_is_no_address_is_named(url: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        AttachEngine(url, "m", log_dir=tmp_path)
    assert named in str(caught.value)
    assert str(caught.value).endswith("e.g. http://127.0.0.1:8000")


@pytest.mark.parametrize(
    "url", ["http://me:hunter2@127.0.0.1:8000", "me:hunter2@127.0.0.1:8000", "ftp://hunter2@h"]
)
def test_a_password_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a user or password in it is never sent") as caught:
        AttachEngine(url, "m", log_dir=tmp_path)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "https://vllm.lan", "http://[::1]:80"])
def test_an_address(url: str, tmp_path: Path) -> None:
    AttachEngine(url, "m", log_dir=tmp_path)
