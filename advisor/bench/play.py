"""One audited replay: played, judged for its own quality, repeated when the client spoiled it."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from advisor.replay.cross_check import disagreement
from advisor.terms.errors import ReplayInterrupted
from advisor.terms.job import Replay, ServerFacts
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan
from advisor.terms.traces import Traces

_log = logging.getLogger(__name__)

#: A void replay is played again at most this often; then the trial is void too.
MOST_REPEATS = 2

#: Called with the share of the replay that is done, 0..1.
Progress = Callable[[float], None]
#: How good a replay was, apart from how fast the server was, and a note for a person.
Assess = Callable[[Traces], tuple[ReplayOutcome, str]]


class Playing(Protocol):
    """The part of a server that a replay needs."""

    async def replay(self, plan: Plan, on_progress: Progress | None = None) -> Traces: ...

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts: ...

    def doubt(self, facts: ServerFacts) -> tuple[ReplayOutcome, str]: ...


@dataclass(frozen=True, slots=True)
class Player:
    """Plays plans against one server and records every attempt."""

    server: Playing
    assess: Assess
    #: gets every attempt, void ones too: nothing measured is dropped
    record: Callable[[Replay], None]
    on_progress: Progress | None = None

    async def play(self, plan: Plan) -> Replay:
        """The first scored attempt, or the last void one after two repeats."""
        for attempt in range(1 + MOST_REPEATS):
            salted = plan if attempt == 0 else replace(plan, salt=salt(plan.salt, attempt))
            before = await self.server.facts()
            traces = await self._replay(salted)
            facts = await self.server.facts(before)
            outcome, note = self.assess(traces)
            doubt = disagreement(traces, facts)
            if doubt:
                _log.warning("the server's own latencies are others: %s", doubt)
            if outcome is ReplayOutcome.VALID:
                outcome, note = self.server.doubt(facts)
            said = "; ".join(text for text in (note, doubt) if text)
            played = Replay(salted, outcome, said, traces, facts)
            self.record(played)
            if outcome.is_scored:
                break
        return played

    async def _replay(self, plan: Plan) -> Traces:
        try:
            return await self.server.replay(plan, self.on_progress)
        except ReplayInterrupted as exc:
            # too little to judge by, yet it shows how far the server came
            cut = ReplayOutcome.UNDERPOWERED
            self.record(Replay(plan, cut, exc.failure.message, exc.traces, ServerFacts()))
            raise


def salt(*parts: object) -> int:
    """63 bits that differ whenever a part does, the same on every machine."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
