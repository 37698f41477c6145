"""The control arm: the baseline once more, under the same rule as a finalist."""

from advisor.terms.advice import AdviceOutcome
from advisor.terms.job import Phase
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.tune.budget import Budget
from tests.contract.scripted_bench import Dials, Script
from tests.unit.tune.jobs import BASELINE, SEQS, World, by_seqs, spec_with
from tests.unit.tune.test_restart import Killer, assert_same_end, run_to_the_end

SPEC = spec_with(control_arm=True)
GAIN = by_seqs({16: Dials(carries=2)})


def test_without_it_no_launch_is_spent_on_one() -> None:
    world = World(GAIN)
    world.run()
    assert world.of(Phase.CONTROL) == []


def test_each_round_has_one_more_arm_on_the_same_windows() -> None:
    world = World(GAIN, SPEC)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    order = [(t.phase, t.repeat, t.setting.get(SEQS)) for t in world.trials if t.phase.is_proof]
    base, ours = (Phase.CONFIRM, BASELINE), (Phase.CONFIRM, 16)
    again = (Phase.CONTROL, BASELINE)
    arms = [(base, ours, again), (again, ours, base), (base, ours, again)]
    assert order == [(p, n, s) for n, turn in enumerate(arms) for p, s in turn]
    assert (advice.search_launches, advice.confirm_launches) == (4, 9)
    assert {t.origin for t in world.of(Phase.CONTROL)} == {"confirmation, control"}
    assert len(world.done("spend")) == 3


def test_no_two_arms_share_a_prompt() -> None:
    world = World(GAIN, SPEC)
    world.run()
    plans: list[Plan] = [plan for _, plan in world.bench.played]
    assert len({plan.salt for plan in plans}) == len(plans)


def test_the_same_setting_proves_the_same_with_it_as_without() -> None:
    """Its launches are no part of what is said of the baseline."""
    plain, controlled = World(GAIN), World(GAIN, SPEC)
    one, other = plain.run(), controlled.run()
    assert one.choice == other.choice
    assert one.baseline == other.baseline
    said = "The control arm, the current setting again, shows no gain over itself"
    assert one.reasons == tuple(reason for reason in other.reasons if reason != said)
    assert said in other.reasons


def test_the_search_neither_pays_for_it_nor_hears_of_it() -> None:
    world = World(GAIN, SPEC)
    world.run()
    assert Budget(SPEC).spent_launches(world.trials) == 4
    assert len(world.done("tell")) == 4


def by_turns() -> Script:
    """Some launches of the current setting are slow, by chance those of one arm."""
    launches: list[Setting] = []

    def script(setting: Setting) -> Dials:
        if setting.get(SEQS) == 16:
            return Dials(carries=2)
        if setting.get(SEQS) not in (None, BASELINE):
            return Dials(carries=0.0)
        launches.append(setting)
        # the search's, then baseline, control, control, baseline, baseline, control
        return Dials(carries=0.0 if len(launches) in (2, 5, 6) else 1.0)

    return script


def test_a_current_setting_that_gains_over_itself_proves_that_nothing_does() -> None:
    """As on a machine that throttles by turns."""
    world = World(by_turns(), SPEC)
    advice = world.run()
    assert advice.outcome is AdviceOutcome.NOT_PROVEN
    assert advice.reasons[0] == (
        "The control arm, the current setting again, gains: it meets the targets at the job's "
        "load, where the baseline misses them"
    )
    assert {t.round for t in world.trials if t.phase.is_proof} == {0}, "it ends the job"
    assert World(by_turns()).run().outcome is AdviceOutcome.RECOMMENDED


def test_a_control_that_fails_gains_nothing() -> None:
    crashing = by_seqs({BASELINE: Dials(crash_above=1.2), 16: Dials(carries=2)}, Dials(carries=0))
    advice = World(crashing, SPEC).run()
    assert advice.outcome is AdviceOutcome.RECOMMENDED
    assert any("launches of the control arm failed" in reason for reason in advice.reasons)


def test_without_a_finalist_there_is_nothing_to_guard() -> None:
    world = World(by_seqs({}), SPEC)
    assert world.run().outcome is AdviceOutcome.KEEP_CURRENT
    assert world.of(Phase.CONTROL) == []


def test_a_kill_changes_nothing() -> None:
    spec = spec_with(control_arm=True, launches=3, rounds=1, multiples=(1.0, 2.0))
    calm = World(GAIN, spec)
    expected = calm.run()
    first = [deed for deed, _ in calm.deeds].index("spend")
    for number in range(first, len(calm.deeds), 7):
        world = World(GAIN, spec, tap=Killer(number))
        assert_same_end(world, run_to_the_end(world), calm, expected)
