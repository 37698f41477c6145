"""The ledger: jobs, trials, replays with traces and curves, spent windows."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _job()
    _trial()
    _replay()
    _blob("replay_traces")
    _blob("replay_curves")
    _spent_window()


def downgrade() -> None:
    for table in ("spent_window", "replay_curves", "replay_traces", "replay", "trial", "job"):
        op.drop_table(table)


def _json() -> sa.JSON:
    return sa.JSON(none_as_null=True)


def _job() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.String(8), nullable=False),
        sa.Column("spec", _json(), nullable=False),
        sa.Column("targets", _json(), nullable=False),
        sa.Column("engine", _json(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(300)),
        sa.Column("lease_until", sa.String(32)),
        sa.Column("seen_at", sa.String(32), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("advice", _json()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )


def _trial() -> None:
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(8), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("setting", _json(), nullable=False),
        sa.Column("setting_key", sa.String(16), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("round", sa.Integer()),
        sa.Column("repeat", sa.Integer()),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("result", _json()),
        sa.Column("opened_at", sa.String(32), nullable=False),
        sa.Column("closed_at", sa.String(32)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_trial_job_id_job"), ondelete="CASCADE"
        ),
        sa.UniqueConstraint("job_id", "number", name=op.f("uq_trial_job_id_number")),
    )
    op.create_index(op.f("ix_trial_setting_key"), "trial", ["setting_key"])


def _replay() -> None:
    op.create_table(
        "replay",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("window", sa.String(), nullable=False),
        sa.Column("multiple", sa.Double(), nullable=False),
        sa.Column("salt", sa.String(40), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("plan", _json(), nullable=False),
        sa.Column("facts", _json(), nullable=False),
        sa.Column("audit", _json()),
        sa.Column("window_start_ns", sa.BigInteger(), nullable=False),
        sa.Column("window_end_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replay")),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trial.id"], name=op.f("fk_replay_trial_id_trial"), ondelete="CASCADE"
        ),
        sa.UniqueConstraint("trial_id", "ordinal", name=op.f("uq_replay_trial_id_ordinal")),
    )


def _blob(table: str) -> None:
    """One blob per replay, apart from it."""
    op.create_table(
        table,
        sa.Column("replay_id", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("replay_id", name=op.f(f"pk_{table}")),
        sa.ForeignKeyConstraint(
            ["replay_id"],
            ["replay.id"],
            name=op.f(f"fk_{table}_replay_id_replay"),
            ondelete="CASCADE",
        ),
    )


def _spent_window() -> None:
    op.create_table(
        "spent_window",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(8), nullable=False),
        sa.Column("window", sa.String(), nullable=False),
        sa.Column("spent_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spent_window")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name=op.f("fk_spent_window_job_id_job"), ondelete="CASCADE"
        ),
        sa.UniqueConstraint("job_id", "window", name=op.f("uq_spent_window_job_id_window")),
    )
