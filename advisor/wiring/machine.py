"""What this machine has, and where things are kept on it."""

from pathlib import Path

from platformdirs import user_data_dir

from advisor.engine.doctor import Diagnosis, examine
from advisor.engine.leftovers import end_leftovers
from advisor.store.ledger import SqlLedger


def log_dir() -> Path:
    """Whole logs of all launches, beside the default database."""
    return Path(user_data_dir("advisor")) / "logs"


def end_leftovers_of(ledger: SqlLedger | None) -> list[str]:
    """End what a killed Advisor left behind; one line for each process, naming its trial where
    this ledger knows it. Raises Blocked when one outlives SIGKILL."""
    found = end_leftovers()
    trials = {} if ledger is None else ledger.launches(found.tokens)
    return [
        f"ended process {pid} of {trials.get(token, 'a launch whose Advisor was killed')}"
        for pid, token in found.processes
    ]


async def examine_machine(vllm_command: str) -> Diagnosis:
    """For `advisor doctor`."""
    return await examine(vllm_command, log_dir())
