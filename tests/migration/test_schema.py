"""The migrations make what the models say, whatever they start from."""

import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, MetaData, create_engine, inspect

from advisor.store.database import VERSION_TABLE, SchemaAge, check, connect, upgrade
from advisor.store.ledger import SqlLedger
from advisor.store.migrate import revisions
from advisor.store.owner import Owner
from advisor.store.schema import REVISION, TABLES, Base
from advisor.terms.errors import LedgerError
from advisor.terms.job import Phase
from advisor.terms.outcome import TrialState
from tests.contract import examples

OLD = sorted((Path(__file__).parent / "old").glob("*.db"))


@pytest.fixture(name="url")
def _url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(name="migrated")
def _migrated(url: str) -> Iterator[Engine]:
    upgrade(url)
    engine = connect(url)
    yield engine
    engine.dispose()


def reflected(engine: Engine) -> dict[str, dict[str, Any]]:
    """Everything SQLite knows of our tables, types as it spells them."""
    with engine.connect() as connection:
        seen = inspect(connection)
        return {
            table: {
                "columns": [
                    {**column, "type": str(column["type"])} for column in seen.get_columns(table)
                ],
                "primary key": seen.get_pk_constraint(table),
                "foreign keys": seen.get_foreign_keys(table),
                "unique": seen.get_unique_constraints(table),
                "indexes": seen.get_indexes(table),
                "checks": seen.get_check_constraints(table),
            }
            for table in sorted(TABLES)
        }


def test_the_program_expects_the_newest_revision() -> None:
    assert revisions()[0] == REVISION


def test_alembic_finds_no_difference(migrated: Engine) -> None:
    with migrated.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": VERSION_TABLE,
                "compare_type": True,
                "compare_server_default": True,
            },
        )
        assert compare_metadata(context, Base.metadata) == []


def test_a_difference_would_be_found(migrated: Engine) -> None:
    changed = MetaData()
    for table in Base.metadata.tables.values():
        if table.name != "spent_window":
            table.to_metadata(changed)
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, changed) != []


def test_migrated_tables_are_the_models_tables(migrated: Engine, tmp_path: Path) -> None:
    modelled = create_engine(f"sqlite:///{tmp_path / 'modelled.db'}")
    Base.metadata.create_all(modelled)
    assert reflected(migrated) == reflected(modelled)
    modelled.dispose()


def test_every_constraint_has_a_name(migrated: Engine) -> None:
    kinds = ("primary key", "foreign keys", "unique", "indexes", "checks")
    for table, found in reflected(migrated).items():
        assert found["primary key"]["constrained_columns"], table
        for kind in kinds:
            listed = found[kind] if isinstance(found[kind], list) else [found[kind]]
            assert all(constraint["name"] for constraint in listed), (table, kind)


def test_upgrading_again_changes_nothing(url: str, migrated: Engine) -> None:
    before = reflected(migrated)
    upgrade(url)
    assert reflected(migrated) == before
    assert check(url).age is SchemaAge.CURRENT


@pytest.mark.parametrize("theirs_first", [True, False])
def test_optuna_may_live_in_the_same_file(url: str, theirs_first: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        if not theirs_first:
            upgrade(url)
        storage = optuna.storages.RDBStorage(url)
        study = optuna.create_study(storage=storage, study_name="theirs")
        study.tell(study.ask(), 1.0)
        upgrade(url)
        upgrade(url)
        again = optuna.load_study(storage=optuna.storages.RDBStorage(url), study_name="theirs")
        assert again.best_value == 1.0
        assert check(url).age is SchemaAge.CURRENT


def test_there_is_an_old_database_of_every_schema() -> None:
    versions = Path(__file__).parents[2] / "migrations" / "versions"
    revisions = sorted(path.name.split("_")[0] for path in versions.glob("[0-9]*.py"))
    assert [path.stem for path in OLD] == revisions


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_old_database_is_upgraded_and_read(old: Path, url: str, tmp_path: Path) -> None:
    shutil.copyfile(old, tmp_path / "ledger.db")
    assert check(url).found == old.stem
    upgrade(url)
    assert check(url).age is SchemaAge.CURRENT
    with SqlLedger(url, owner=Owner.this_process()) as ledger:
        done, left = sorted(ledger.jobs(), key=lambda job: job.state)
        assert done.spec == examples.SPEC
        assert done.engine == examples.ENGINE
        assert done.spent_windows == {"held-out-0"}
        assert ledger.advice(done.id) == examples.advice()
        measured, refused = ledger.trials(done.id)
        assert (measured.result, refused.result) == (examples.measured(), examples.refused())
        (replay,) = ledger.replays(done.id, 0)
        assert replay.plan == examples.replay().plan
        examples.assert_same(ledger.traces(replay.id), examples.traces())
        assert list(ledger.scored(done.id)) == [0]
        ledger.claim(left.id)
        assert ledger.trials(left.id)[0].result.state is TrialState.INTERRUPTED
        assert ledger.open_trial(left.id, Phase.SEARCH, examples.PROPOSAL) == 1


def test_rows_that_refer_to_nothing_are_found_after_an_upgrade(
    url: str, migrated: Engine, tmp_path: Path
) -> None:
    """Foreign keys are off meanwhile, so what a rebuild loses must be looked for."""
    connection = sqlite3.connect(tmp_path / "ledger.db")
    with connection:
        connection.execute("INSERT INTO spent_window VALUES (1, 'nowhere1', 'w', '')")
    connection.close()
    with pytest.raises(LedgerError, match="rows of spent_window would refer to nothing"):
        upgrade(url)
