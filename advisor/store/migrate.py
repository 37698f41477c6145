"""The migrations, wherever they lie, run by Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from advisor.store.schema import TABLES
from advisor.terms.errors import LedgerError


def migrate(connection: Connection) -> None:
    """Brings the schema to this program's, in one transaction.

    With foreign keys off, as SQLite's table rebuilds drop and rename what others refer to.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        # outside of any transaction, where alone it has an effect; the connection is thrown away
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
    config = _config()
    config.attributes["connection"] = connection
    with connection.begin():
        command.upgrade(config, "head")
        if is_sqlite:
            _refuse_dangling(connection)


def _refuse_dangling(connection: Connection) -> None:
    for table in sorted(TABLES):
        if connection.exec_driver_sql(f"PRAGMA foreign_key_check({table})").first() is not None:
            raise LedgerError(f"db: upgrade undone, rows of {table} would refer to nothing")


def revisions() -> list[str]:
    """All that this program knows, the newest first."""
    scripts = ScriptDirectory.from_config(_config())
    return [script.revision for script in scripts.walk_revisions()]


def _config() -> Config:
    config = Config()
    # `%` is configparser's own sign
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    return config


def _migrations() -> Path:
    """In the wheel they lie inside the package, in the repository at its root."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "_migrations", package.parent / "migrations"):
        if (place / "env.py").is_file():
            return place
    raise LedgerError(f"db: no migrations beside {package}; install advisor again")
