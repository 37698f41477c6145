"""Work on several GPU sets side by side, of which nothing goes on when one of them fails."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

S = TypeVar("S")


class Lanes(Generic[S]):
    """One piece of work at a time on each set.

    Leaving the block, however that comes about, cuts off what still runs and waits until it has
    ended: servers are stopped and trials closed by then.
    """

    def __init__(self, sets: Sequence[S]) -> None:
        self._sets = tuple(sets)
        #: in the order they were started, with the number of their set
        self._busy: dict[asyncio.Task[None], int] = {}

    @property
    def are_busy(self) -> bool:
        """Whether any work has not ended, or its end was not looked at."""
        return bool(self._busy)

    async def start(self, work: Callable[[S], Coroutine[Any, Any, None]]) -> None:
        """Begin it on the first free set, and go on when it waits for the first time: what it
        does before that, such as opening its trial, is done. Raises RuntimeError without one."""
        taken = set(self._busy.values())
        free = [number for number in range(len(self._sets)) if number not in taken]
        if not free:
            raise RuntimeError("every set is busy")
        self._busy[asyncio.create_task(work(self._sets[free[0]]))] = free[0]
        await asyncio.sleep(0)

    async def one_is_free(self) -> None:
        """Raises what ended the work that was waited for."""
        while len(self._busy) == len(self._sets):
            await self.one_ends()

    async def one_ends(self) -> None:
        """Wait until some work has ended. Raises what ended it."""
        await asyncio.wait(list(self._busy), return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in self._busy if task.done()]:
            task.result()
            del self._busy[task]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._busy:
            task.cancel()
        ended = await asyncio.gather(*self._busy, return_exceptions=True)
        # an interrupt must not hide that a server could not be ended; an error tells enough
        failed = [each for each in ended if isinstance(each, Exception)]
        if failed and not isinstance(error, Exception):
            raise failed[0] from error
