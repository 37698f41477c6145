"""One audited replay."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.bench.play import MOST_REPEATS, Player, Progress, salt
from advisor.measure.stop import Question, known_at
from advisor.terms.errors import LaunchFailed, ReplayError, ReplayInterrupted
from advisor.terms.job import Replay, ServerFacts
from advisor.terms.outcome import Reason, ReplayOutcome, StopReason
from advisor.terms.profile import Plan, Window, WindowRole
from advisor.terms.target import parse_target
from advisor.terms.traces import Look, RequestStatus, Traces
from tests.contract.scripted_bench import Dials, failure, traces

PLAN = Plan(Window("w", WindowRole.SEARCH, 0, 10**10), 1.0, 77, 0)
PLAYED = traces(Dials(), PLAN)
VALID, LATE = ReplayOutcome.VALID, ReplayOutcome.CLIENT_BOUND


class Server:
    """Plays anything, or fails to order; counts what it was asked."""

    def __init__(
        self, error: Exception | None = None, doubts: Sequence[tuple[ReplayOutcome, str]] = ()
    ) -> None:
        self._error = error
        self._doubts = list(doubts)
        self.plans: list[Plan] = []
        self.since: list[ServerFacts | None] = []

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        self.plans.append(plan)
        if self._error is not None:
            raise self._error
        if on_progress is not None:
            on_progress(1.0)
        return PLAYED

    async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
        self.since.append(since)
        return ServerFacts(preemptions=float(len(self.since)))

    def doubt(self, facts: ServerFacts) -> tuple[ReplayOutcome, str]:
        assert facts.preemptions is not None
        return self._doubts.pop(0) if self._doubts else (VALID, "")


async def play(
    server: Server, outcomes: Sequence[ReplayOutcome], progress: Progress | None = None
) -> tuple[Replay, list[Replay]]:
    left, recorded = list(outcomes), list[Replay]()

    def assess(_: Traces) -> tuple[ReplayOutcome, str]:
        outcome = left.pop(0)
        return outcome, "" if outcome is VALID else f"it was {outcome}"

    player = Player(server, assess, recorded.append, progress)
    return await player.play(PLAN), recorded


async def test_a_good_replay_is_played_and_recorded_once() -> None:
    server, told = Server(), list[float]()
    played, recorded = await play(server, [VALID], told.append)
    assert recorded == [played]
    assert (played.plan, played.outcome, played.note) == (PLAN, VALID, "")
    assert played.traces is PLAYED
    assert told == [1.0]


async def test_facts_are_the_change_over_the_replay() -> None:
    server = Server()
    played, _ = await play(server, [VALID])
    assert server.since == [None, ServerFacts(preemptions=1.0)]
    assert played.facts == ServerFacts(preemptions=2.0)


async def test_a_server_that_tells_of_other_latencies_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Told(Server):
        async def facts(self, since: ServerFacts | None = None) -> ServerFacts:
            return ServerFacts(preemptions=0, ttft_s_sum=9e4, ttft_count=1)

    played, _ = await play(Told(), [VALID])
    assert played.outcome is VALID
    assert "mean TTFT is" in caplog.text
    assert played.note.startswith("mean TTFT is")
    caplog.clear()
    await play(Server(), [VALID])
    assert caplog.text == ""


async def test_a_void_replay_is_repeated_under_a_new_salt_and_every_attempt_is_recorded() -> None:
    server = Server()
    played, recorded = await play(server, [LATE, ReplayOutcome.MISMATCH, VALID])
    assert played is recorded[-1]
    assert [r.outcome for r in recorded] == [LATE, ReplayOutcome.MISMATCH, VALID]
    assert [r.note for r in recorded] == ["it was client_bound", "it was mismatch", ""]
    assert [r.plan for r in recorded] == server.plans
    assert len({plan.salt for plan in server.plans}) == 3
    assert {replace(plan, salt=0) for plan in server.plans} == {replace(PLAN, salt=0)}


async def test_what_the_server_says_against_a_replay_voids_it_too() -> None:
    server = Server(doubts=[(ReplayOutcome.NOISY, "slowed"), (VALID, "")])
    played, recorded = await play(server, [LATE, VALID, VALID])
    assert [r.outcome for r in recorded] == [LATE, ReplayOutcome.NOISY, VALID]
    assert [r.note for r in recorded] == ["it was client_bound", "slowed", ""]
    assert played is recorded[-1]


class Looking(Server):
    """Overloaded: has itself looked at where its window ends, and stops if that is asked for."""

    def __init__(self, *, too_late: bool = False) -> None:
        super().__init__()
        self._too_late = too_late
        self.whole = traces(Dials(carries=0.5), PLAN)

    async def replay(
        self, plan: Plan, on_progress: Progress | None = None, look: Look | None = None
    ) -> Traces:
        await super().replay(plan, on_progress)
        if look is None:
            return self.whole
        so_far = known_at(self.whole, self.whole.window_end_ns + look.after_ns)
        return so_far if look.settled(so_far) and not self._too_late else self.whole


HOPELESS = Question((parse_target("ttft:p95<=1000ms"),), 0.95, 1)


async def test_a_replay_that_answers_its_question_early_is_scored_and_says_why() -> None:
    recorded = list[Replay]()
    player = Player(Looking(), lambda _: (VALID, ""), recorded.append)
    played = await player.play(PLAN, HOPELESS)
    assert recorded == [played]
    assert (played.outcome, played.stop) == (
        ReplayOutcome.STOPPED_EARLY,
        StopReason.OUT_OF_REACH,
    )
    assert played.note == "out_of_reach: ttft:p95<=1000ms is missed whatever is still to come"
    assert played.outcome.is_scored
    assert (played.traces.status == RequestStatus.STOPPED).any()


async def test_without_a_question_nothing_is_stopped() -> None:
    player = Player(Looking(), lambda _: (VALID, ""), lambda _: None)
    played = await player.play(PLAN)
    assert (played.outcome, played.stop, played.note) == (VALID, None, "")


async def test_an_answer_that_spares_nothing_is_no_stop() -> None:
    player = Player(Looking(too_late=True), lambda _: (VALID, ""), lambda _: None)
    played = await player.play(PLAN, HOPELESS)
    assert (played.outcome, played.stop, played.note) == (VALID, None, "")


async def test_a_late_client_is_no_reason_to_believe_a_stop() -> None:
    recorded = list[Replay]()
    player = Player(Looking(), lambda _: (LATE, "late"), recorded.append)
    await player.play(PLAN, HOPELESS)
    assert [(r.outcome, r.stop) for r in recorded] == [(LATE, None)] * 3


async def test_after_two_repeats_the_last_void_one_is_the_answer() -> None:
    server = Server()
    played, recorded = await play(server, [LATE] * 9)
    assert len(recorded) == 1 + MOST_REPEATS == 3
    assert played is recorded[-1]
    assert not played.outcome.is_scored


async def test_what_a_server_did_before_it_died_is_recorded_and_nothing_more_is_asked() -> None:
    died = failure(Reason.CRASHED_UNDER_LOAD, "it died")
    server, recorded = Server(ReplayInterrupted(died, PLAYED)), list[Replay]()
    player = Player(server, lambda _: (VALID, ""), recorded.append)
    with pytest.raises(LaunchFailed, match="it died"):
        await player.play(PLAN)
    assert [(r.outcome, r.note) for r in recorded] == [(ReplayOutcome.UNDERPOWERED, "it died")]
    assert recorded[0].traces is PLAYED
    assert not recorded[0].outcome.is_scored
    assert len(server.since) == 1  # no facts of the dead


async def test_a_broken_client_is_an_error_and_no_attempt() -> None:
    server, recorded = Server(ReplayError("too many open files")), list[Replay]()
    player = Player(server, lambda _: (VALID, ""), recorded.append)
    with pytest.raises(ReplayError, match="open files"):
        await player.play(PLAN)
    assert recorded == []


@given(st.lists(st.one_of(st.integers(), st.text(max_size=4)), max_size=4))
def test_a_salt_fits_63_bits_and_differs_with_its_parts(parts: list[object]) -> None:
    assert 0 <= salt(*parts) < 2**63
    assert salt(*parts) == salt(*parts)
    assert salt(*parts, "x") != salt(*parts)


def test_a_salt_is_the_same_on_every_machine() -> None:
    assert salt(7, "search-1", 1.5) == 8954822582615130869
