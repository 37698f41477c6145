"""The token by which the processes of a trial's launch can be found."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trial", sa.Column("token", sa.String(80)))


def downgrade() -> None:
    op.drop_column("trial", "token")
