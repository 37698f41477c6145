from dataclasses import replace

import pytest

from advisor.store.owner import Owner
from advisor.store.rows import Played
from advisor.store.serde import decode_curves
from advisor.terms.errors import LedgerError, NotFound
from advisor.terms.job import Phase
from advisor.terms.outcome import ReplayOutcome, TrialState
from tests.contract import examples
from tests.unit.store.conftest import Clock, Open

CLIENT_BOUND = ReplayOutcome.CLIENT_BOUND


def test_replays_read_back_without_traces_and_traces_when_asked(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    for ordinal in range(2):
        ledger.add_replay(job_id, number, examples.replay(ordinal))
    first, second = ledger.replays(job_id, number)
    expected = examples.replay(1)
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert (second.plan, second.facts) == (expected.plan, expected.facts)
    assert (second.outcome, second.note) == (expected.outcome, expected.note)
    assert second.audit == examples.AUDIT
    assert (second.window_start_ns, second.window_end_ns) == (10**9, 3 * 10**9)
    assert decode_curves(second.curves).requests == 2
    examples.assert_same(ledger.traces(second.id), expected.traces)


def test_how_well_replays_were_played_is_read_without_what_they_measured(
    open_ledger: Open,
) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    for ordinals in ((0, 1), (), (2,)):
        number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
        for ordinal in ordinals:
            ledger.add_replay(job_id, number, examples.replay(ordinal, CLIENT_BOUND))
    played = ledger.played(job_id)
    assert {number: [one.window for one in each] for number, each in played.items()} == {
        0: ["search-0", "search-1"],
        2: ["search-2"],
    }
    assert played[2] == [Played("search-2", 1.2, CLIENT_BOUND, "late by 2 ms", examples.AUDIT)]


def test_what_is_not_there_is_not_found(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    with pytest.raises(NotFound, match="no trial 0"):
        ledger.replays(job_id, 0)
    with pytest.raises(NotFound, match="replay 9 "):
        ledger.traces(9)
    for ask in (ledger.claim, ledger.heartbeat, ledger.release, ledger.advice):
        with pytest.raises(NotFound, match="'nowhere1'"):
            ask("nowhere1")


def test_jobs_are_listed_newest_first(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger()
    assert ledger.jobs() == []
    first = ledger.open_job(examples.SPEC, examples.ENGINE)
    clock.pass_s(1)
    second = ledger.open_job(examples.SPEC, examples.ENGINE)
    assert ledger.jobs() == [second, first]
    assert second.created_at == "2026-01-01T00:00:01.000000+00:00"


def test_advice_reads_back_and_its_job_belongs_to_nobody(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    assert ledger.advice(job_id) is None
    ledger.store_advice(job_id, examples.advice())
    assert ledger.advice(job_id) == examples.advice()
    assert open_ledger(Owner("other/1", 4712, 0.0)).claim(job_id).state == "done"


def test_a_trial_lasts_from_its_opening_to_its_closing(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(90.5)
    ledger.close_trial(job_id, number, examples.measured())
    assert ledger.trials(job_id)[0].elapsed_s == 90.5


def test_a_clock_set_back_gives_no_negative_length(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(-5)
    ledger.close_trial(job_id, number, examples.measured())
    assert ledger.trials(job_id)[0].elapsed_s == 0


def test_a_refused_number_leaves_the_trial_running(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    bad = replace(examples.measured(), headroom=replace(examples.HEADROOM, estimate=float("nan")))
    with pytest.raises(LedgerError, match=r"headroom\.estimate is NaN"):
        ledger.close_trial(job_id, number, bad)
    assert ledger.trials(job_id)[0].result.state is TrialState.RUNNING
