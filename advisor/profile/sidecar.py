"""The TOML file beside a profile: what the rows cannot say about themselves."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from advisor.terms.errors import ProfileError

#: A further table of the sidecar: what a generator or an importer wants remembered.
Table = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Provenance of one profile file; None is "not said"."""

    name: str | None = None
    #: prompt tokens per hash id
    block_tokens: int | None = None
    source: str | None = None
    licence: str | None = None
    #: of the JSONL file's bytes, lower-case hex
    sha256: str | None = None
    #: how the file was made, for a person
    made_by: str | None = None
    #: (reason, rows) that an earlier step left out
    dropped: tuple[tuple[str, int], ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)


def sidecar_path(profile_path: Path) -> Path:
    """`load.jsonl` -> `load.toml`."""
    return profile_path.with_suffix(".toml")


def read_sidecar(path: Path) -> Sidecar:
    """Read the sidecar; all fields are None when there is none.

    Raises ProfileError naming the file and the field. Keys that are not ours are left alone.
    """
    try:
        values = tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return Sidecar()
    except OSError as exc:
        raise ProfileError(f"profile sidecar {path}: cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        reason = " ".join(str(exc).split())
        raise ProfileError(f"profile sidecar {path}: not TOML: {reason}") from exc
    return Sidecar(
        name=_text(path, values, "name"),
        block_tokens=_block_tokens(path, values),
        source=_text(path, values, "source"),
        licence=_text(path, values, "licence"),
        sha256=_text(path, values, "sha256"),
        made_by=_text(path, values, "made_by"),
        dropped=_dropped(path, values),
    )


def _text(path: Path, values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    raise ProfileError(f"profile sidecar {path}: {name} is {value!r}; expected some text")


def _block_tokens(path: Path, values: Mapping[str, object]) -> int | None:
    value = values.get("block_tokens")
    if value is None or (type(value) is int and value >= 1):
        return value
    raise ProfileError(
        f"profile sidecar {path}: block_tokens is {value!r}; expected an integer of 1 or more"
    )


def _dropped(path: Path, values: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    table = values.get("dropped", {})
    counts: dict[str, object] = table if isinstance(table, dict) else {"": None}
    pairs = [(k, v) for k, v in counts.items() if type(v) is int and v >= 1]
    if len(pairs) < len(counts):
        raise ProfileError(
            f"profile sidecar {path}: dropped is {table!r}; "
            'expected a table of "reason" = rows, an integer of 1 or more'
        )
    return tuple(sorted(pairs))


def to_toml(sidecar: Sidecar) -> bytes:
    """The sidecar as TOML; what is None is absent."""
    plain: dict[str, str | int | None] = {
        "name": sidecar.name,
        "block_tokens": sidecar.block_tokens,
        "source": sidecar.source,
        "licence": sidecar.licence,
        "sha256": sidecar.sha256,
        "made_by": sidecar.made_by,
    }
    lines = [f"{key} = {_value(value)}" for key, value in plain.items() if value is not None]
    tables: dict[str, Table] = dict(sidecar.tables)
    if sidecar.dropped:
        tables["dropped"] = dict(sidecar.dropped)
    for name, table in tables.items():
        lines += ["", f"[{_string(name)}]"]
        lines += [f"{_string(key)} = {_value(value)}" for key, value in table.items()]
    # a file name may hold bytes that are no text; they become question marks here
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _value(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _string(value) if isinstance(value, str) else repr(value)


def _string(text: str) -> str:
    """A JSON string is a TOML basic string but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
