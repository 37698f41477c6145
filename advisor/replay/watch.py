"""Whether the server under load still lives: its process runs, and tokens advance."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from advisor.terms.outcome import Failure, Reason

#: How often the server is looked at; nothing is timed by it.
_WATCH_S = 0.2
#: Progress is looked for in one read per this time: enough for a stall limit of a second.
_PROGRESS_GRAIN_NS = 100_000_000
#: A chunk with a token id or with text; a comment, an empty chunk or a bare usage is neither.
_CARRIES_TOKENS = re.compile(rb'"token_ids":\s*\[\s*\d|"text":\s*"[^"]')


@dataclass(slots=True)
class Watch:
    """Whether the server lives, judged by its process and by tokens, never by `/health`."""

    #: requests of the whole replay
    total: int
    stall_timeout_s: float
    alive: Callable[[], bool]
    on_progress: Callable[[float], None] | None
    open: int = 0
    ended: int = 0
    #: the last token, or the moment since which anything is open at all
    advanced_ns: int = 0

    def opened(self, now_ns: int) -> None:
        if self.open == 0:
            self.advanced_ns = now_ns
        self.open += 1

    def closed(self) -> None:
        self.open -= 1
        self.ended += 1

    def saw(self, stamp_ns: int, read: bytes) -> None:
        recent = stamp_ns - self.advanced_ns < _PROGRESS_GRAIN_NS
        if not recent and _CARRIES_TOKENS.search(read):
            self.advanced_ns = stamp_ns

    async def until_failure(self) -> Failure:
        while True:
            await asyncio.sleep(_WATCH_S)
            failure = self._crash() or self._stall()
            if failure is not None:
                return failure
            if self.on_progress is not None:
                self.on_progress(self.ended / self.total)

    def finish(self) -> Failure | None:
        """All requests have ended; a server that died with the last of them still counts."""
        if self.on_progress is not None:
            self.on_progress(1.0)
        return self._crash()

    def _crash(self) -> Failure | None:
        if self.alive():
            return None
        text = f"the server ended under load, with {self.ended} of {self.total} requests done"
        return Failure(Reason.CRASHED_UNDER_LOAD, text, stage="load")

    def _stall(self) -> Failure | None:
        silent_s = (perf_counter_ns() - self.advanced_ns) / 1e9
        if self.open == 0 or silent_s < self.stall_timeout_s:
            return None
        text = f"no token for {silent_s:.1f} s with {self.open} requests open"
        return Failure(Reason.HUNG, text, stage="load")
