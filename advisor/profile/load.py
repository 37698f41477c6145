"""A profile file and its sidecar -> a Profile."""

from collections import Counter
from hashlib import sha256
from pathlib import Path

from advisor.profile.rows import parse_rows
from advisor.profile.sidecar import read_sidecar, sidecar_path
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile

#: What a profile without hash ids gets: vLLM's own block size on GPUs (`block_size`, 16), where
#: it decides nothing, since no two prompts are known to share a block.
DEFAULT_BLOCK_TOKENS = 16

UNKNOWN = "unknown"


def load_profile(path: Path) -> Profile:
    """Read and check a recorded load.

    Raises ProfileError for a missing or empty file, a malformed row (file, row and field are
    named), hash ids without a block size, a block list that does not fit its prompt's length,
    or a sidecar whose sha256 is not the file's.
    """
    data = read_bytes(path)
    digest = sha256(data).hexdigest()
    beside = sidecar_path(path)
    sidecar = read_sidecar(beside)
    if sidecar.sha256 is not None and sidecar.sha256.lower() != digest:
        raise ProfileError(
            f"profile {path}: sha256 is {digest}, but {beside} says {sidecar.sha256}; "
            "the file was changed after it was made"
        )
    rows = parse_rows(path, decode(path, data), sidecar.block_tokens)
    return Profile(
        name=sidecar.name or path.stem,
        requests=rows.requests,
        block_tokens=sidecar.block_tokens or DEFAULT_BLOCK_TOKENS,
        sha256=digest,
        source=sidecar.source or UNKNOWN,
        licence=sidecar.licence or UNKNOWN,
        made_by=sidecar.made_by or UNKNOWN,
        dropped=merge_counts(sidecar.dropped, rows.dropped),
    )


def read_bytes(path: Path) -> bytes:
    """The file's bytes; raises ProfileError when it cannot be read or is empty."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as exc:
        raise ProfileError(f"profile {path}: no such file") from exc
    except OSError as exc:
        raise ProfileError(f"profile {path}: cannot be read: {exc.strerror}") from exc
    if not data.strip():
        raise ProfileError(f"profile {path}: the file is empty; expected one request per line")
    return data


def decode(path: Path, data: bytes) -> str:
    """UTF-8 text, a byte order mark tolerated; raises ProfileError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ProfileError(
            f"profile {path}: byte {exc.start} is not UTF-8; expected a UTF-8 text file"
        ) from exc


def merge_counts(*parts: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Sum (reason, rows) pairs by reason, in alphabetical order."""
    total: Counter[str] = Counter()
    for part in parts:
        for reason, rows in part:
            total[reason] += rows
    return tuple(sorted(total.items()))
