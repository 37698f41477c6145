"""Runs the revisions on the connection, and in the transaction, of `advisor.store.database`."""

from alembic import context

from advisor.store.database import VERSION_TABLE
from advisor.store.schema import Base

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("these migrations run through: advisor db upgrade")

context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    # SQLite changes a column by building the table anew
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
