"""What every ledger does, whatever it is kept in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.measure.codec import to_bytes
from advisor.measure.curves import curves
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.errors import LedgerError, NotFound
from advisor.terms.job import Phase, TrialResult
from advisor.terms.outcome import ReplayOutcome, TrialState
from advisor.terms.target import parse_target
from advisor.tune.attempts import in_order_of_end
from advisor.tune.ports import Ledger
from tests.contract import examples
from tests.contract.memory_ledger import MemoryLedger


@pytest.fixture(name="ledger", params=["sql", "memory"])
def _ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "memory":
        yield MemoryLedger()
        return
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with SqlLedger(url, owner=Owner.this_process()) as ledger:
        yield ledger


@pytest.fixture(name="job_id")
def _job_id(ledger: Ledger) -> str:
    return ledger.open_job(examples.SPEC, examples.ENGINE).id


def test_a_job_reads_back_as_it_was_opened(ledger: Ledger) -> None:
    opened = ledger.open_job(examples.SPEC, examples.ENGINE)
    assert ledger.job(opened.id) == opened
    assert (opened.spec, opened.engine) == (examples.SPEC, examples.ENGINE)
    assert (opened.targets, opened.state) == (examples.TARGETS, "open")
    assert opened.spent_windows == frozenset()


def test_jobs_are_told_apart(ledger: Ledger, job_id: str) -> None:
    other = ledger.open_job(examples.SPEC, examples.ENGINE)
    ledger.open_trial(other.id, Phase.BASELINE, examples.PROPOSAL)
    ledger.spend(other.id, ["held-out-0"])
    assert other.id != job_id
    assert ledger.trials(job_id) == []
    assert ledger.job(job_id).spent_windows == frozenset()
    assert ledger.open_trial(job_id, Phase.BASELINE, examples.PROPOSAL) == 0


def test_an_unknown_job_is_not_found(ledger: Ledger) -> None:
    for ask in (
        lambda: ledger.job("nowhere1"),
        lambda: ledger.trials("nowhere1"),
        lambda: ledger.scored("nowhere1"),
        lambda: ledger.spend("nowhere1", ["w"]),
        lambda: ledger.open_trial("nowhere1", Phase.SEARCH, examples.PROPOSAL),
        lambda: ledger.store_advice("nowhere1", examples.advice()),
    ):
        with pytest.raises(NotFound, match="nowhere1"):
            ask()


def test_resolved_targets_replace_what_was_asked_and_leave_the_spec(
    ledger: Ledger, job_id: str
) -> None:
    resolved = (examples.TARGETS[0].resolved(50e6), examples.TARGETS[1])
    ledger.resolve_targets(job_id, resolved)
    job = ledger.job(job_id)
    assert job.targets == resolved
    assert job.targets[0].asked == "itl:p99<=0.6x"
    assert job.spec.targets == examples.TARGETS


def test_a_trial_is_there_before_its_launch(ledger: Ledger, job_id: str) -> None:
    number = ledger.open_trial(job_id, Phase.CONFIRM, examples.PROPOSAL, round_=1, repeat=0)
    (trial,) = ledger.trials(job_id)
    assert (trial.number, trial.phase, trial.setting) == (number, Phase.CONFIRM, examples.SETTING)
    assert (trial.origin, trial.round, trial.repeat) == ("sampler", 1, 0)
    assert trial.result == TrialResult(TrialState.RUNNING)
    assert (trial.replays, trial.elapsed_s) == (0, None)


def test_numbers_are_dense_from_zero_and_trials_in_their_order(
    ledger: Ledger, job_id: str
) -> None:
    opened = [ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL) for _ in range(4)]
    ledger.close_trial(job_id, 2, examples.refused())
    opened.append(ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL))
    assert opened == [0, 1, 2, 3, 4]
    assert [trial.number for trial in ledger.trials(job_id)] == opened


@pytest.mark.parametrize("result", [examples.measured(), examples.refused()])
def test_a_closed_trial_reads_back_as_it_ended(
    ledger: Ledger, job_id: str, result: TrialResult
) -> None:
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    ledger.close_trial(job_id, number, result)
    (trial,) = ledger.trials(job_id)
    assert trial.result == result
    assert trial.elapsed_s is not None
    assert trial.elapsed_s >= 0


def test_a_trial_ends_once_and_never_as_running(ledger: Ledger, job_id: str) -> None:
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    with pytest.raises(LedgerError, match="as running"):
        ledger.close_trial(job_id, number, TrialResult(TrialState.RUNNING))
    ledger.close_trial(job_id, number, examples.refused())
    with pytest.raises(LedgerError, match="already"):
        ledger.close_trial(job_id, number, examples.measured())
    with pytest.raises(LedgerError, match="already"):
        ledger.add_replay(job_id, number, examples.replay())
    (trial,) = ledger.trials(job_id)
    assert trial.result == examples.refused()


def test_an_unknown_trial_is_not_found(ledger: Ledger, job_id: str) -> None:
    with pytest.raises(NotFound, match="no trial 3"):
        ledger.close_trial(job_id, 3, examples.measured())
    with pytest.raises(NotFound, match="no trial 3"):
        ledger.add_replay(job_id, 3, examples.replay())


def test_the_token_of_a_launch_is_there_while_it_runs_and_after(
    ledger: Ledger, job_id: str
) -> None:
    number = ledger.open_trial(job_id, Phase.BASELINE, examples.PROPOSAL)
    assert ledger.trials(job_id)[number].token is None
    ledger.mark(job_id, number, "7.1.ab")
    assert ledger.trials(job_id)[number].token == "7.1.ab"
    ledger.close_trial(job_id, number, examples.measured())
    assert ledger.trials(job_id)[number].token == "7.1.ab"
    with pytest.raises(LedgerError, match="already"):
        ledger.mark(job_id, number, "7.1.cd")


def test_replays_are_counted_to_their_trial(ledger: Ledger, job_id: str) -> None:
    first = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    second = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    for ordinal in range(3):
        ledger.add_replay(job_id, first, examples.replay(ordinal))
    ledger.add_replay(job_id, second, examples.replay())
    assert [trial.replays for trial in ledger.trials(job_id)] == [3, 1]


def test_only_replays_that_a_verdict_may_rest_on_are_scored(ledger: Ledger, job_id: str) -> None:
    for outcomes in ((ReplayOutcome.VALID, ReplayOutcome.CLIENT_BOUND), (), (*ReplayOutcome,)):
        number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
        for ordinal, outcome in enumerate(outcomes):
            ledger.add_replay(job_id, number, examples.replay(ordinal, outcome))
    scored = ledger.scored(job_id)
    windows = {number: [one.window for one in found] for number, found in scored.items()}
    assert windows == {0: ["search-0"], 2: ["search-0", "search-6"]}
    expected = curves(examples.traces())
    for one in (*scored[0], *scored[2]):
        assert one.multiple == 1.2
        assert to_bytes(one.curves) == to_bytes(expected)
        assert one.facts == examples.replay().facts


def test_a_window_is_spent_once_and_a_refused_call_spends_none(
    ledger: Ledger, job_id: str
) -> None:
    ledger.spend(job_id, ["held-out-0", "held-out-1"])
    with pytest.raises(LedgerError, match="'held-out-1' is spent"):
        ledger.spend(job_id, ["held-out-2", "held-out-1"])
    with pytest.raises(LedgerError, match="'held-out-3' is spent"):
        ledger.spend(job_id, ["held-out-3", "held-out-3"])
    assert ledger.job(job_id).spent_windows == {"held-out-0", "held-out-1"}


def test_advice_ends_the_job(ledger: Ledger, job_id: str) -> None:
    number = ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    ledger.store_advice(job_id, examples.advice())
    assert ledger.job(job_id).state == "done"
    for write in (
        lambda: ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL),
        lambda: ledger.close_trial(job_id, number, examples.measured()),
        lambda: ledger.resolve_targets(job_id, [parse_target("ttft:p95<=1s")]),
        lambda: ledger.spend(job_id, ["held-out-0"]),
        lambda: ledger.store_advice(job_id, examples.advice()),
    ):
        with pytest.raises(LedgerError, match="is done"):
            write()


def test_trials_tell_in_which_order_they_ended(ledger: Ledger, job_id: str) -> None:
    for _ in range(3):
        ledger.open_trial(job_id, Phase.SEARCH, examples.PROPOSAL)
    for number in (2, 0):
        ledger.close_trial(job_id, number, examples.measured())
    found = ledger.trials(job_id)
    assert found[1].ended_s is None
    assert found[0].ended_s is not None
    assert found[2].ended_s is not None
    assert found[2].ended_s <= found[0].ended_s
    assert [trial.number for trial in in_order_of_end(found)] == [2, 0, 1]
