"""One audited replay: played, judged for its own quality, repeated when the client spoiled it."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from advisor.measure.definitions import is_unseen
from advisor.measure.stop import Question, Stop
from advisor.replay.cross_check import disagreement
from advisor.terms.errors import ReplayInterrupted
from advisor.terms.job import Replay, ServerFacts
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import Plan
from advisor.terms.traces import Look, Traces

_log = logging.getLogger(__name__)

#: A void replay is played again at most this often; then the trial is void too.
MOST_REPEATS = 2

#: Called with the share of the replay that is done, 0..1.
Progress = Callable[[float], None]
#: How good a replay was, apart from how fast the server was, and a note for a person.
Assess = Callable[[Traces], tuple[ReplayOutcome, str]]


class Playing(Protocol):
    """The part of a server that a replay needs."""

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces: ...

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

    async def play(self, plan: Plan, question: Question | None = None) -> Replay:
        """The first scored attempt, or the last void one after two repeats.

        An attempt that can be ended as the answer to `question` is ended, and scored as far as
        it has come.
        """
        for attempt in range(1 + MOST_REPEATS):
            salted = plan if attempt == 0 else replace(plan, salt=salt(plan.salt, attempt))
            before = await self.server.facts()
            traces, stop = await self._replay(salted, question)
            facts = await self.server.facts(before)
            outcome, note = self.assess(traces)
            doubt = disagreement(traces, facts)
            if doubt:
                _log.warning("the server's own latencies are others: %s", doubt)
            if outcome is ReplayOutcome.VALID:
                outcome, note = self.server.doubt(facts)
            if outcome is ReplayOutcome.VALID and stop is not None:
                outcome, note = ReplayOutcome.STOPPED_EARLY, str(stop)
            said = "; ".join(text for text in (note, doubt) if text)
            reason = stop.reason if stop and outcome.is_scored else None
            played = Replay(salted, outcome, said, traces, facts, reason)
            self.record(played)
            if outcome.is_scored:
                break
        return played

    async def _replay(self, plan: Plan, question: Question | None) -> tuple[Traces, Stop | None]:
        """The traces, and why they were cut short if they were."""
        found: list[Stop] = []

        def settled(so_far: Traces) -> bool:
            stop = question.stop(so_far) if question else None
            found.extend((stop,) if stop else ())
            return stop is not None

        look = Look(question.patience_ns, settled) if question else None
        try:
            traces = await self.server.replay(plan, self.on_progress, look)
            # an answer may come too late to spare anything
            return traces, found[0] if found and is_unseen(traces).any() else None
        except ReplayInterrupted as exc:
            # too little to judge by, yet it shows how far the server came
            cut = ReplayOutcome.UNDERPOWERED
            self.record(Replay(plan, cut, exc.failure.message, exc.traces, ServerFacts()))
            raise


def salt(*parts: object) -> int:
    """63 bits that differ whenever a part does, the same on every machine."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
