"""The profiles that come with the package."""

from pathlib import Path

from advisor.terms.errors import ProfileError

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_profiles() -> dict[str, Path]:
    """Name -> file, from the installed wheel or from the checkout."""
    for folder in (_PACKAGE / "_profiles", _PACKAGE.parent / "profiles"):
        found = {path.stem: path for path in sorted(folder.glob("*.jsonl"))}
        if found:
            return found
    return {}


def resolve(name_or_path: str) -> Path:
    """A file that exists, or a shipped profile's name; raises ProfileError listing the names."""
    path = Path(name_or_path)
    if name_or_path and path.is_file():
        return path
    shipped = shipped_profiles()
    if name_or_path in shipped:
        return shipped[name_or_path]
    what = "a folder" if name_or_path and path.is_dir() else "no such file"
    raise ProfileError(
        f"profile {name_or_path!r}: {what}; expected a JSONL file or one of {', '.join(shipped)}"
    )
