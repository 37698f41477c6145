"""A soak is played, judged by survival alone, and recorded as no measurement."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.bench.play import Progress
from advisor.bench.soak import WINDOW, most_open, soak, soak_plan
from advisor.terms.errors import LaunchFailed, ReplayInterrupted
from advisor.terms.job import Replay, ServerFacts, Soak
from advisor.terms.outcome import Reason, ReplayOutcome
from advisor.terms.profile import Plan
from advisor.terms.traces import MISSING, Look, RequestStatus, Traces
from tests.contract.scripted_bench import Dials, failure, traces

PLAN = soak_plan(12, 1.5, 7)


class Server:
    """Gives these traces, or the error."""

    def __init__(self, played: Traces, error: LaunchFailed | None = None) -> None:
        self._played, self._error = played, error
        self.looks: list[Look | None] = []

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        self.looks.append(look)
        if self._error is not None:
            raise self._error
        return self._played

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        return ServerFacts(preemptions=None if since is None else 3.0)

    def doubt(self, facts: ServerFacts) -> tuple[ReplayOutcome, str]:
        raise AssertionError("nothing is measured, so nothing is doubted")


async def soaked(played: Traces) -> tuple[Soak, Replay]:
    recorded: list[Replay] = []
    found = await soak(Server(played), PLAN, recorded.append)
    (replay,) = recorded
    return found, replay


async def test_who_serves_them_all_survives() -> None:
    found, replay = await soaked(traces(Dials(), PLAN))
    assert found == Soak(12)
    assert found.survived
    assert (replay.outcome, replay.note) == (ReplayOutcome.SOAK, "")
    assert replay.facts == ServerFacts(preemptions=3.0)
    assert not replay.outcome.is_scored
    assert (replay.plan.at_once, replay.plan.multiple, replay.plan.window) == (12, 1.5, WINDOW)


async def test_it_ends_when_its_time_is_over_whatever_is_open() -> None:
    server = Server(traces(Dials(), PLAN))
    await soak(server, PLAN, lambda replay: None)
    (look,) = server.looks
    assert look is not None
    assert look.after_ns == 0
    assert look.settled(traces(Dials(), PLAN))
    assert WINDOW.duration_ns > 120 * 10**9, "a server that hangs is seen to after two minutes"


async def test_what_was_not_finished_in_time_has_not_failed() -> None:
    played = traces(Dials(), PLAN)
    status = played.status.copy()
    status[:5] = RequestStatus.STOPPED
    found, _ = await soaked(replace(played, status=status))
    assert (found.survived, found.unfinished) == (True, 5)


async def test_a_failed_request_is_named_by_its_kind() -> None:
    played = traces(Dials(), PLAN)
    status = played.status.copy()
    status[:3] = [RequestStatus.HTTP, RequestStatus.RESET, RequestStatus.HTTP]
    found, replay = await soaked(replace(played, status=status))
    assert not found.survived
    assert found.trouble == "3 of 12 requests failed (http x2, reset x1)"
    assert replay.note == found.trouble


@pytest.mark.parametrize("reason", [Reason.CRASHED_UNDER_LOAD, Reason.HUNG])
async def test_a_server_that_ends_is_recorded_with_what_came(reason: Reason) -> None:
    played, recorded = traces(Dials(), PLAN), list[Replay]()
    server = Server(played, ReplayInterrupted(failure(reason, "it ended"), played))
    with pytest.raises(LaunchFailed, match="it ended"):
        await soak(server, PLAN, recorded.append)
    (replay,) = recorded
    assert (replay.outcome, replay.note) == (ReplayOutcome.SOAK, "it ended")
    assert replay.traces is played


def test_how_many_are_open_at_one_moment() -> None:
    played = traces(Dials(), PLAN)
    assert most_open(played) == 12
    sent = np.arange(12) * 10
    assert most_open(replace(played, sent_ns=sent, end_ns=sent + 10)) == 1
    assert most_open(replace(played, sent_ns=sent, end_ns=sent + 25)) == 3
    never = np.where(np.arange(12) < 4, sent, MISSING)
    assert most_open(replace(played, sent_ns=never, end_ns=np.full(12, 10**6))) == 4
    endless = np.full(12, MISSING)
    assert most_open(replace(played, sent_ns=sent, end_ns=endless)) == 12
