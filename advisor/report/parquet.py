"""PyArrow, where it is installed: 55 MB that Parquet alone needs."""

from types import ModuleType

from advisor.terms.errors import InputError


def arrow(wanted_by: str, instead: str) -> tuple[ModuleType, ModuleType]:
    """`pyarrow` and `pyarrow.parquet`. Raises InputError that names what else would do."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as exc:
        raise InputError(
            f"{wanted_by} needs pyarrow, which is not installed; expected: pip install pyarrow, "
            f"or {instead}"
        ) from exc
    return pa, pq
