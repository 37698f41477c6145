"""The seam of the engine room: what a bench needs of whatever turns a Setting into an Endpoint."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from advisor.engine.device import Devices
from advisor.engine.endpoint import Endpoint
from advisor.terms.setting import Setting

#: Called with a launch's token before anything of it is started.
Mark = Callable[[str], None]


def unmarked(token: str) -> None:
    """Nobody keeps the token; the launch carries it all the same."""


class Engine(Protocol):
    """Serves one setting at a time."""

    @property
    def kind(self) -> str:
        """vllm, docker or attach."""
        ...

    @property
    def devices(self) -> Devices: ...

    async def version(self) -> str:
        """Of the vLLM that is measured. Raises InputError when it cannot be told."""
        ...

    async def hardware(self) -> str:
        """What it is measured on."""
        ...

    async def check_flags(self, names: Iterable[tuple[str, str]], version: str) -> None:
        """Hold (where asked for, flag) against the flags of this version, nothing launched.

        Raises InputError for one that it has not.
        """
        ...

    def hold(self, what: str) -> AbstractContextManager[None]:
        """Keep what is measured on for this process alone.

        Raises Blocked where another one has it, InputError where no launch could follow.
        """
        ...

    def serve(
        self, setting: Setting, mark: Mark = unmarked
    ) -> AbstractAsyncContextManager[Endpoint]:
        """Bring the setting up; on leaving, nothing of it is left that was not there before.

        Entering raises LaunchFailed when it does not come up, EngineError when it cannot be run,
        Blocked when the machine allows no launch; leaving raises Blocked when a part of it stays.
        """
        ...
