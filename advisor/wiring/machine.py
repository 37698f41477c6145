"""What this machine has, and where things are kept on it."""

from pathlib import Path

from platformdirs import user_data_dir

from advisor.bench.engines import end_all_leftovers
from advisor.engine.doctor import Diagnosis, examine
from advisor.replay.capacity import Carried, measure_capacity
from advisor.store.ledger import SqlLedger


def log_dir() -> Path:
    """Whole logs of all launches, beside the default database."""
    return Path(user_data_dir("advisor")) / "logs"


def end_leftovers_of(ledger: SqlLedger | None) -> list[str]:
    """End what killed Advisors left on this machine; one line for each, naming its trial where
    this ledger knows it. Raises Blocked when something cannot be ended."""
    ended, unknown = end_all_leftovers()
    trials = {} if ledger is None else ledger.launches(set(ended.values()))
    lines = [
        f"ended {what} of {trials.get(token, 'a launch whose Advisor was killed')}"
        for what, token in ended.items()
    ]
    return lines + unknown


async def try_client() -> list[Carried]:
    """What this machine's load generator carries; takes up to 15 s. Raises ReplayError."""
    return await measure_capacity()


async def examine_machine(vllm_command: str) -> Diagnosis:
    """For `advisor doctor`."""
    return await examine(vllm_command, log_dir())
