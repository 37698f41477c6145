"""What this machine has, and where things are kept on it."""

from pathlib import Path

from platformdirs import user_data_dir

from advisor.engine.doctor import Diagnosis, examine
from advisor.replay.capacity import Carried, measure_capacity


def log_dir() -> Path:
    """Whole logs of all launches, beside the default database."""
    return Path(user_data_dir("advisor")) / "logs"


async def try_client() -> list[Carried]:
    """What this machine's load generator carries; takes up to 15 s. Raises ReplayError."""
    return await measure_capacity()


async def examine_machine(vllm_command: str) -> Diagnosis:
    """For `advisor doctor`."""
    return await examine(vllm_command, log_dir())
