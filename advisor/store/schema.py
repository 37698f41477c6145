"""The ledger's tables. `migrations/` makes them; a test holds the two against each other.

Moments are text, ISO 8601 in UTC with microseconds: equal on every database, sortable as text.
The names stay clear of those of Optuna's storage (`studies`, `trials`), which may live beside.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    LargeBinary,
    MetaData,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: A missing value is SQL NULL, never the JSON word `null`.
_JSON = JSON(none_as_null=True)

#: One JSON value as SQLAlchemy hands it over: dict, list, str, number, bool or None.
JsonValue = Any


class Base(DeclarativeBase):
    """Every constraint has a name: SQLite cannot drop one without."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )


class JobRow(Base):
    __tablename__ = "job"

    #: 8 hexadecimal digits
    id: Mapped[str] = mapped_column(String(8), primary_key=True)
    spec: Mapped[JsonValue] = mapped_column(_JSON, nullable=False)
    targets: Mapped[JsonValue] = mapped_column(_JSON, nullable=False)
    engine: Mapped[JsonValue] = mapped_column(_JSON, nullable=False)
    #: open or done
    state: Mapped[str] = mapped_column(String(16))
    #: `Owner.text`, None when nobody works on it
    owner: Mapped[str | None] = mapped_column(String(300))
    #: after it, a process on another host may take the job
    lease_until: Mapped[str | None] = mapped_column(String(32))
    #: last write or heartbeat: until then the owner was alive for certain
    seen_at: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[str] = mapped_column(String(32))
    advice: Mapped[JsonValue | None] = mapped_column(_JSON)


class TrialRow(Base):
    __tablename__ = "trial"
    __table_args__ = (UniqueConstraint("job_id", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    #: dense from 0 within the job
    number: Mapped[int]
    phase: Mapped[str] = mapped_column(String(16))
    setting: Mapped[JsonValue] = mapped_column(_JSON, nullable=False)
    #: `Setting.key`
    setting_key: Mapped[str] = mapped_column(String(16), index=True)
    origin: Mapped[str]
    round: Mapped[int | None]
    repeat: Mapped[int | None]
    state: Mapped[str] = mapped_column(String(16))
    #: TrialResult; None while it runs
    result: Mapped[JsonValue | None] = mapped_column(_JSON)
    opened_at: Mapped[str] = mapped_column(String(32))
    closed_at: Mapped[str | None] = mapped_column(String(32))
    #: of the launch's processes, written before the first of them is started
    token: Mapped[str | None] = mapped_column(String(80))


class ReplayRow(Base):
    __tablename__ = "replay"
    __table_args__ = (UniqueConstraint("trial_id", "ordinal"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trial.id", ondelete="CASCADE"))
    #: dense from 0 within the trial
    ordinal: Mapped[int]
    window: Mapped[str]
    multiple: Mapped[float]
    #: decimal digits: a salt may be wider than a database's integers
    salt: Mapped[str] = mapped_column(String(40))
    outcome: Mapped[str] = mapped_column(String(16))
    note: Mapped[str]
    plan: Mapped[JsonValue] = mapped_column(_JSON, nullable=False)
    facts: Mapped[JsonValue] = mapped_column(_JSON, nullable=False)
    audit: Mapped[JsonValue | None] = mapped_column(_JSON)
    #: of the traces: arrivals from start up to end were counted
    window_start_ns: Mapped[int] = mapped_column(BigInteger)
    window_end_ns: Mapped[int] = mapped_column(BigInteger)


class TracesRow(Base):
    """Apart from `replay`, so that listing replays never reads megabytes."""

    __tablename__ = "replay_traces"

    replay_id: Mapped[int] = mapped_column(
        ForeignKey("replay.id", ondelete="CASCADE"), primary_key=True
    )
    #: `serde.encode_traces`
    data: Mapped[bytes] = mapped_column(LargeBinary)


class CurvesRow(Base):
    """What verdicts are computed from; opaque here."""

    __tablename__ = "replay_curves"

    replay_id: Mapped[int] = mapped_column(
        ForeignKey("replay.id", ondelete="CASCADE"), primary_key=True
    )
    data: Mapped[bytes] = mapped_column(LargeBinary)


class SpentWindowRow(Base):
    __tablename__ = "spent_window"
    __table_args__ = (UniqueConstraint("job_id", "window"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    window: Mapped[str]
    spent_at: Mapped[str] = mapped_column(String(32))


#: Only these are ours in the database file.
TABLES = frozenset(Base.metadata.tables)
#: The newest revision in `migrations/`, known here so that a current database needs no Alembic.
REVISION = "0002"
