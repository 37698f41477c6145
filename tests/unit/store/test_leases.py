"""Who may write to a job."""

from dataclasses import replace

import pytest

from advisor.store.owner import Owner
from advisor.terms.errors import LeaseLost
from advisor.terms.job import Phase
from advisor.terms.outcome import TrialState
from tests.contract import examples
from tests.unit.store.conftest import Clock, Open

ELSEWHERE = Owner("elsewhere/1", 4711, 0.0)
OTHER = Owner("other/1", 4712, 0.0)
DEAD = replace(Owner.this_process(), started_s=0.0)


def test_a_dead_owners_job_is_claimed_at_once_and_its_trial_interrupted(
    open_ledger: Open, clock: Clock
) -> None:
    dead = open_ledger(DEAD)
    job_id = dead.open_job(examples.SPEC, examples.ENGINE).id
    dead.close_trial(
        job_id, dead.open_trial(job_id, Phase.BASELINE, examples.PROPOSAL), examples.measured()
    )
    dead.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(10)
    dead.heartbeat(job_id)
    clock.pass_s(3600)
    ledger = open_ledger()
    ledger.claim(job_id)
    first, second = ledger.trials(job_id)
    assert first.result == examples.measured()
    assert second.result.state is TrialState.INTERRUPTED
    assert second.elapsed_s == 10
    assert ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL) == 2


def test_whether_anybody_works_on_a_job(open_ledger: Open, clock: Clock) -> None:
    us, dead, elsewhere = open_ledger(), open_ledger(DEAD), open_ledger(ELSEWHERE, lease_s=30)
    ours, left, theirs = (
        ledger.open_job(examples.SPEC, examples.ENGINE).id for ledger in (us, dead, elsewhere)
    )
    clock.pass_s(3600)  # longer than the lease: another host's process may be in a long replay
    assert [us.is_abandoned(job) for job in (ours, left, theirs)] == [False, True, False]
    us.release(ours)
    assert us.is_abandoned(ours)
    us.claim(left)
    assert not us.is_abandoned(left)
    us.store_advice(left, examples.advice())
    assert not us.is_abandoned(left)


def test_a_job_of_another_host_is_claimed_after_its_lease(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger(ELSEWHERE, lease_s=30)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    other = open_ledger(OTHER)
    clock.pass_s(29)
    with pytest.raises(
        LeaseLost, match="leased to pid 4711 on elsewhere until 2026-01-01T00:00:30"
    ):
        other.claim(job_id)
    ledger.heartbeat(job_id)
    clock.pass_s(29)
    with pytest.raises(LeaseLost, match="until 2026-01-01T00:00:59"):
        other.claim(job_id)
    clock.pass_s(1)
    assert other.claim(job_id).id == job_id


def test_who_lost_a_job_writes_nothing_more(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger(ELSEWHERE)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    clock.pass_s(31)
    other = open_ledger(OTHER)
    other.claim(job_id)
    for write in (
        lambda: ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL),
        lambda: ledger.add_replay(job_id, number, examples.replay()),
        lambda: ledger.close_trial(job_id, number, examples.measured()),
        lambda: ledger.resolve_targets(job_id, examples.TARGETS),
        lambda: ledger.spend(job_id, ["held-out-0"]),
        lambda: ledger.store_advice(job_id, examples.advice()),
        lambda: ledger.heartbeat(job_id),
        lambda: ledger.release(job_id),
    ):
        with pytest.raises(LeaseLost, match="belongs to pid 4712 on other now, not to pid 4711"):
            write()
    (trial,) = other.trials(job_id)
    assert (trial.result.state, trial.replays) == (TrialState.INTERRUPTED, 0)


def test_an_expired_lease_that_nobody_took_still_holds(open_ledger: Open, clock: Clock) -> None:
    ledger = open_ledger(ELSEWHERE)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    clock.pass_s(3600)
    assert ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL) == 0


def test_a_released_job_is_free_for_any_process(open_ledger: Open) -> None:
    ledger = open_ledger(ELSEWHERE)
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    ledger.release(job_id)
    with pytest.raises(LeaseLost, match="belongs to nobody now"):
        ledger.heartbeat(job_id)
    other = open_ledger(OTHER)
    other.claim(job_id)
    other.heartbeat(job_id)


def test_claiming_ones_own_job_again_closes_what_it_left(open_ledger: Open) -> None:
    ledger = open_ledger()
    job_id = ledger.open_job(examples.SPEC, examples.ENGINE).id
    ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    ledger.claim(job_id)
    assert ledger.trials(job_id)[0].result.state is TrialState.INTERRUPTED
