"""A Profile -> a profile file and its sidecar, both or an error, never half of one."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from advisor.profile.rows import to_jsonl
from advisor.profile.sidecar import Sidecar, Table, sidecar_path, to_toml
from advisor.terms.errors import ProfileError
from advisor.terms.profile import Profile


def write_profile(
    profile: Profile, path: Path, tables: Mapping[str, Table] | None = None
) -> Profile:
    """Write `path` and `<stem>.toml` beside it; `load_profile(path)` equals what is returned.

    That is the profile with the sha256 of the bytes written. Files that are there are replaced.
    `tables` are further tables for the sidecar. Raises ProfileError when the place cannot be
    written or `path` does not end in `.jsonl`.
    """
    if path.suffix != ".jsonl":
        raise ProfileError(f"profile {path}: cannot write there; expected a name like load.jsonl")
    rows = to_jsonl(profile.requests)
    written = replace(profile, sha256=sha256(rows).hexdigest())
    sidecar = to_toml(
        Sidecar(
            name=profile.name,
            block_tokens=profile.block_tokens,
            source=profile.source,
            licence=profile.licence,
            sha256=written.sha256,
            made_by=profile.made_by,
            dropped=profile.dropped,
            tables=tables or {},
        )
    )
    try:
        # The sidecar first: were the second rename to fail, the two would disagree in their
        # sha256 and be refused, where rows alone might be read under no block size
        _replace(sidecar_path(path), sidecar)
        _replace(path, rows)
    except OSError as exc:
        raise ProfileError(f"profile {path}: cannot be written: {exc.strerror}") from exc
    return written


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a profile is an ordinary file
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
