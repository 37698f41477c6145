"""In which order the ledger, the bench and the searcher hear of a trial."""

from advisor.bench.soak import WINDOW as SOAK
from advisor.terms.job import Phase, Proposal, TrialResult
from advisor.terms.outcome import Reason, ReplayOutcome, TrialState
from advisor.terms.profile import Plan, WindowRole
from tests.contract.scripted_bench import Dials, failure
from tests.unit.tune.jobs import BASELINE, SEQS, WINDOWS, World, by_seqs, lucky, spec_with

#: Of the first round.
FIRST = WINDOWS.held_out[:3]


def test_a_trial_is_open_before_its_launch_and_closed_before_the_searcher_hears() -> None:
    world = World(by_seqs({}), spec_with(launches=2, multiples=(1.0,)))
    world.run()
    deeds = [deed for deed, _ in world.deeds]
    one = ["open", "mark", "launch", *["replay", "record"] * 3, "end", "close", "tell"]
    assert deeds[: 2 * len(one) + 1] == [*one, "ask", *one]
    assert deeds[2 * len(one) + 1 :][:4] == ["spend", "open", "mark", "launch"]
    assert deeds[-1] == "advise"


def test_what_the_searcher_hears_is_what_the_ledger_has() -> None:
    world = World(by_seqs({16: Dials(start=failure())}))
    world.run()
    told: list[tuple[Proposal, TrialResult]] = world.done("tell")
    kept = [t for t in world.trials if t.phase is not Phase.CONFIRM]
    assert [result for _, result in told] == [trial.result for trial in kept]
    assert told[0][0].setting.get(SEQS) == BASELINE  # as the server resolved it


def test_the_search_never_plays_held_out_load_nor_the_confirmation_the_searchs() -> None:
    world = World(by_seqs({16: Dials(carries=2)}))
    world.run()
    first_spent = [deed for deed, _ in world.deeds].index("spend")
    plans = [d for deed, d in world.deeds[:first_spent] if deed == "replay"]
    assert {plan.window for plan in plans if isinstance(plan, Plan)} == set(WINDOWS.search)
    plans = [d for deed, d in world.deeds[first_spent:] if deed == "replay"]
    roles = {plan.window: plan.window.role for plan in plans if isinstance(plan, Plan)}
    assert [window for window, role in roles.items() if role is WindowRole.SOAK] == [SOAK]
    assert roles.keys() - {SOAK} == set(FIRST)


def test_each_held_out_window_is_spent_once_and_before_it_is_played() -> None:
    world = lucky({16: 2.0, 32: 1.5})
    world.run()
    spent: set[str] = set()
    for deed, detail in world.deeds:
        if deed == "spend":
            assert isinstance(detail, tuple)
            assert spent.isdisjoint(detail)
            spent.update(detail)
        elif deed == "replay" and isinstance(detail, Plan):
            held_out = detail.window.role is WindowRole.HELD_OUT
            assert held_out == (detail.window.name in spent)
    confirmed = [t.setting.get(SEQS) for t in world.of(Phase.CONFIRM) if t.repeat == 0]
    assert confirmed == [BASELINE, 16, BASELINE, 32]
    assert spent == {window.name for window in WINDOWS.held_out}


def test_confirmation_alternates_who_goes_first_on_fresh_launches() -> None:
    world = World(by_seqs({16: Dials(carries=2, failed_share=0.001)}))
    world.run()
    confirming = world.of(Phase.CONFIRM)[:6]
    order = [(t.round, t.repeat, t.setting.get(SEQS)) for t in confirming]
    assert order == [(0, 0, 256), (0, 0, 16), (0, 1, 16), (0, 1, 256), (0, 2, 256), (0, 2, 16)]
    launches = world.bench.launched[-len(world.of(Phase.CONFIRM)) :]
    assert launches == [trial.setting for trial in world.of(Phase.CONFIRM)]
    played = [each for each in world.bench.played if each[1].at_once is None][-12:]
    windows = [plan.window for _, plan in played[::2]]
    assert windows == [FIRST[0], FIRST[0], FIRST[1], FIRST[1], FIRST[2], FIRST[2]]
    assert [plan.multiple for _, plan in played] == [1.0, 2.0] * 6


def test_no_two_replays_of_a_job_share_a_salt() -> None:
    """Else a prompt of one could be in the prefix cache for another."""
    world = World(by_seqs({16: Dials(carries=2), 32: Dials(late_plays=1)}))
    world.run()
    salts = [plan.salt for _, plan in world.bench.played]
    assert len(set(salts)) == len(salts)
    recorded = [plan for _, plan in world.bench.played if plan.at_once is None]
    assert {plan.lead_in_ns for plan in recorded} == {WINDOWS.gap_ns}


def test_a_late_client_is_given_two_more_tries() -> None:
    world = World(by_seqs({8: Dials(late_plays=2)}), spec_with(launches=2, multiples=(1.0,)))
    world.run()
    (trial,) = world.of(Phase.SEARCH)
    assert trial.result.state is TrialState.MEASURED
    outcomes = [replay.outcome for replay in world.ledger.replays(world.job.id, trial.number)]
    void = ReplayOutcome.CLIENT_BOUND
    assert outcomes == [void, void, ReplayOutcome.VALID] * 3


def test_a_client_late_three_times_fails_the_trial_and_teaches_nothing() -> None:
    world = World(by_seqs({8: Dials(late_plays=3)}), spec_with(launches=3, multiples=(1.0,)))
    world.run()
    first, second = world.of(Phase.SEARCH)
    assert first.result.state is TrialState.FAILED
    assert first.result.headroom is None
    assert first.replays == 3
    assert "is client_bound: send lateness p99 500.0 ms" in first.result.note
    # our fault, so it is worth one more launch
    assert second.setting == first.setting


def test_a_client_late_at_a_headroom_multiple_only_ends_the_climb() -> None:
    world = World(by_seqs({16: Dials(carries=9, late_above=1.6)}))
    advice = world.run()
    trial = next(t for t in world.of(Phase.SEARCH) if t.setting.get(SEQS) == 16)
    assert trial.result.state is TrialState.MEASURED
    assert [m.multiple for m in trial.result.measurements] == [1.0, 1.5]
    assert trial.result.note.startswith("at 2x the replay of search-1 is client_bound")
    assert str(trial.result.headroom) == ">= 1.5"
    assert "it carries 1.5x the recorded load" in advice.reasons[0]


def test_a_server_that_ends_under_load_gets_no_more_of_it() -> None:
    """The scripted server asserts so; what was measured until then is kept."""
    crash = Dials(carries=9, crash_above=1.6)
    world = World(by_seqs({16: crash}))
    world.run()
    trial = next(t for t in world.of(Phase.SEARCH) if t.setting.get(SEQS) == 16)
    assert trial.result.state is TrialState.INFEASIBLE
    assert trial.result.failure == crash.crash
    assert trial.result.launch is not None
    assert [m.multiple for m in trial.result.measurements] == [1.0]
    assert trial.result.headroom is None
    last = world.ledger.replays(world.job.id, trial.number)[-1]
    assert (last.outcome, last.note) == (ReplayOutcome.UNDERPOWERED, "died")


def test_a_hang_is_a_failure_and_not_the_settings_fault() -> None:
    hang = Dials(crash_at_replay=1, crash=failure(Reason.HUNG, "no token for 120 s"))
    world = World(by_seqs({8: hang}), spec_with(launches=2))
    world.run()
    (trial,) = world.of(Phase.SEARCH)
    assert trial.result.state is TrialState.FAILED
    assert trial.result.measurements == ()


def test_the_watch_hears_of_every_step() -> None:
    world = World(by_seqs({}), spec_with(launches=2, multiples=(1.0,)))
    world.run()
    assert world.watch.closed == world.trials
    assert world.watch.replays[:3] == [(w.name, 1.0) for w in WINDOWS.search]
    assert len(world.watch.replays) == sum(trial.replays for trial in world.trials)
