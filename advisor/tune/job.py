"""One job, top to bottom.

Baseline first; then ask, launch, replay, judge, write down, tell; then the finalists and the
baseline again, interleaved, on fresh launches and on load that the search never saw, and at the
end of each round the finalist under the longest requests; then advice. With several GPU sets the
search alone runs on all of them side by side.
The ledger is written before the searcher is told and before anything else is launched, so a job
that is killed anywhere goes on where it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from advisor.advice.advise import Case, advise, blocked
from advisor.advice.background import Ranges
from advisor.advice.choose import effective, finalists
from advisor.advice.confirm import control_gain
from advisor.measure.curves import Curves
from advisor.terms.advice import Advice, AdviceOutcome
from advisor.terms.errors import Blocked, TargetError
from advisor.terms.job import Job, Phase, Proposal, Trial
from advisor.terms.profile import Windows
from advisor.terms.setting import Setting
from advisor.terms.target import Target, Verdict
from advisor.tune.attempts import before_its_end, cut_off, in_order_of_end, is_settled, over
from advisor.tune.book import Book
from advisor.tune.budget import MOST_FAILURES_IN_A_ROW, Budget, failures_in_a_row
from advisor.tune.case import baseline_of, case_of, searched, to_beat
from advisor.tune.confirmation import Step, as_good, claim_multiple, finalist_of, steps_of
from advisor.tune.lanes import Lanes
from advisor.tune.neighbours import among_neighbours, is_due, why_alone
from advisor.tune.ports import Ledger, Searcher
from advisor.tune.resolve import resolve_targets
from advisor.tune.trial import TrialRunner
from advisor.tune.watch import Watch


@dataclass(slots=True)
class Conductor:
    """Runs one job; everything it knows for longer than a trial is in the ledger."""

    job: Job
    baseline: Setting
    windows: Windows
    ledger: Ledger
    searcher: Searcher
    #: on the first GPU set, or the only one: all that is proven is measured here, nothing beside
    runner: TrialRunner
    watch: Watch
    #: how far the Space reaches, to be told where the best lies at its edge
    ranges: Ranges = ()
    notes: list[str] = field(default_factory=list)
    #: on each further set, for the search
    beside: Sequence[TrialRunner] = ()

    @property
    def _book(self) -> Book:
        return Book(self.job.id, self.ledger, self.watch)

    async def run(self) -> Advice:
        """To the end of the job, from wherever the ledger says it stands."""
        try:
            self._recall()
            await self._measure_baseline()
            await self._search(await self._undisturbed())
            await self._simplify()
            await self._confirm()
            self._refuse_when_failing()
        except Blocked as exc:
            advice = blocked(self._case(), str(exc))
        else:
            advice = advise(self._case())
        self.ledger.store_advice(self.job.id, advice)
        return advice

    async def _measure_baseline(self) -> None:
        while self._budget.why_stop(self._book.trials()) is None:
            attempts = [t for t in over(self._book.trials()) if t.phase is Phase.BASELINE]
            if is_settled(attempts):
                break
            origin = "baseline, retry" if attempts else "baseline"
            proposal = Proposal(self.baseline, origin)
            await self._search_trial(Phase.BASELINE, proposal, self.runner)
        self._refuse_unresolved()

    async def _undisturbed(self) -> Sequence[TrialRunner]:
        """Where the search runs: on every set, unless they are seen to disturb each other."""
        sets = (self.runner, *self.beside)
        if not self.beside:
            return sets
        while is_due(self._book.trials(), self._budget):
            self._refuse_when_failing()
            await self._measure_among_neighbours(sets)
        job, scored = self.ledger.job(self.job.id), self.ledger.scored(self.job.id)
        why = why_alone(self._book.trials(), scored, job.targets, job.spec)
        if why is None:
            return sets
        self.watch.note(why)
        self.notes.append(why)
        return sets[:1]

    async def _measure_among_neighbours(self, sets: Sequence[TrialRunner]) -> None:
        baseline = baseline_of(self._book.trials())
        assert baseline is not None  # it is due after the baseline was measured
        proposal = Proposal(baseline.setting, "beside loaded neighbours")
        number = self._book.open(Phase.NEIGHBOURS, proposal)
        targets = self.ledger.job(self.job.id).targets
        run = among_neighbours(sets, proposal.setting, targets, self._book.keep(number))
        await self._book.to_its_end(number, run)

    async def _search(self, sets: Sequence[TrialRunner]) -> None:
        async with Lanes(sets) as lanes:
            while isinstance(found := self._next(), Proposal) or lanes.are_busy:
                if isinstance(found, Proposal):
                    await lanes.start(partial(self._search_trial, Phase.SEARCH, found))
                    await lanes.one_is_free()
                else:
                    await lanes.one_ends()  # which may teach what else is worth a launch
        self.notes.append(found)
        self._recall(after_its_end=True)

    def _next(self) -> Proposal | str:
        """What to launch next, first what was cut off by the end of a process; else why not.

        Once anything followed the search it is over, whatever was learnt since: another finalist
        may not take over a round that has begun.
        """
        trials = self._book.trials()
        searching = before_its_end(trials)
        why = self._budget.why_stop(searching)
        if why is not None:
            return why
        is_over = len(searching) < len(trials)
        if not is_over:
            self._refuse_when_failing()
            if left := cut_off(searching):
                again = Proposal(left[0].setting, left[0].origin)
                self.searcher.resume(again)
                return again
        proposal = self.searcher.ask()
        if proposal is None:
            return f"The search ended because {self.searcher.why_ended}"
        return "The search had ended before this job was resumed" if is_over else proposal

    async def _simplify(self) -> None:
        """Take back each change of the best setting that does not pay, while launches are left."""
        baseline = baseline_of(self._book.trials())
        if any(trial.phase.is_proof for trial in self._book.trials()):
            return  # a finalist is fixed
        while baseline is not None and self._budget.why_stop(self._book.trials()) is None:
            self._refuse_when_failing()
            leaders = finalists(searched(self._book.trials()), self.job.spec, baseline)
            if not leaders:
                return
            proposal = self.searcher.simpler(leaders[0].setting, baseline.setting)
            if proposal is None:
                return
            leader = leaders[0]
            carried = claim_multiple(leader, self.job.spec)
            as_much = as_good(carried, leader.setting, proposal.setting, self.job.spec)
            await self._search_trial(Phase.SEARCH, proposal, self.runner, as_much)

    def _recall(self, *, after_its_end: bool = False) -> None:
        """After a restart: the searcher hears again what the ledger already knows, in the order
        in which it heard it; what came after the end of the search when it has ended again."""
        trials = self._book.trials()
        of_the_search = {trial.number for trial in before_its_end(trials)}
        for trial in in_order_of_end(over(trials)):
            if trial.phase not in (Phase.BASELINE, Phase.SEARCH):
                continue
            if (trial.number not in of_the_search) is after_its_end:
                self._tell(trial)

    def _tell(self, trial: Trial) -> None:
        """The baseline is told with every knob as the server ran it."""
        setting = effective(trial) if trial.phase is Phase.BASELINE else trial.setting
        self.searcher.tell(Proposal(setting, trial.origin), trial.result)

    async def _confirm(self) -> None:
        baseline = baseline_of(self._book.trials())
        if baseline is None:
            return
        ranked = finalists(searched(self._book.trials()), self.job.spec, baseline)
        for round_ in range(self.job.spec.rounds):
            finalist = finalist_of(round_, ranked, self._book.trials())
            if finalist is None and (
                self._is_settled(None) or not self._baseline_could_be_proven()
            ):
                return
            for step in steps_of(round_, finalist, baseline.setting, self.windows, self.job.spec):
                while not step.is_done_by(self._book.trials()):
                    await self._confirm_step(step)
            if self._is_settled(finalist):
                return

    def _is_settled(self, finalist: Trial | None) -> bool:
        """A proven gain ends the job, and one that the baseline shows over itself; that nothing
        gains is said only after every finalist."""
        case = self._case()
        outcome = advise(case).outcome
        if outcome is AdviceOutcome.RECOMMENDED or control_gain(case.rounds) is not None:
            return True
        return finalist is None and outcome is AdviceOutcome.KEEP_CURRENT

    async def _confirm_step(self, step: Step) -> None:
        self._refuse_when_failing()
        job = self.ledger.job(self.job.id)
        if step.window.name not in job.spent_windows:
            self.ledger.spend(job.id, [step.window.name])
        origin = ", ".join(filter(None, ("confirmation", step.arm)))
        number = self._book.open(
            step.phase, Proposal(step.setting, origin), step.round, step.repeat
        )
        run = self.runner.confirm(
            step.setting,
            job.targets,
            self._book.keep(number),
            step.window,
            step.multiples,
            arm=step.arm,
            soak_with=step.most_open(self._book.trials()) if step.soaks else None,
        )
        await self._book.to_its_end(number, run)

    async def _search_trial(
        self, phase: Phase, proposal: Proposal, runner: TrialRunner, as_much: float | None = None
    ) -> None:
        """`as_much`: the load multiple that it has to carry, None: that of a finalist."""
        number = self._book.open(phase, proposal)
        targets = self.ledger.job(self.job.id).targets
        run = runner.search(
            proposal.setting,
            targets,
            self._book.keep(number),
            self._resolve,
            whole=phase is Phase.BASELINE,
            to_beat=as_much or to_beat(self._book.trials(), self.job.spec, proposal.setting),
        )
        self._tell(await self._book.to_its_end(number, run))

    def _resolve(self, at_load: Sequence[Curves]) -> tuple[Target, ...]:
        """The job's targets; relative ones are settled by the first trial, the baseline."""
        targets = self.ledger.job(self.job.id).targets
        if any(target.is_relative for target in targets):
            targets = resolve_targets(targets, at_load)
            self.ledger.resolve_targets(self.job.id, targets)
        return targets

    def _refuse_unresolved(self) -> None:
        targets = self.ledger.job(self.job.id).targets
        relative = next((t for t in targets if t.is_relative), None)
        if relative is not None:
            result = over(self._book.trials())[0].result
            why = result.failure.message if result.failure else result.note
            raise TargetError(
                f"target {relative}: the baseline was not measured ({why}); "
                "give a baseline that starts, or the limit in ms"
            )

    def _refuse_when_failing(self) -> None:
        if failures_in_a_row(self._book.trials()) >= MOST_FAILURES_IN_A_ROW:
            last = in_order_of_end(over(self._book.trials()))[-1].result
            why = last.failure.message if last.failure else last.note
            raise Blocked(f"{MOST_FAILURES_IN_A_ROW} launches in a row failed, the last: {why}")

    @property
    def _budget(self) -> Budget:
        return Budget(self.job.spec, self.job.engine.gpus)

    def _baseline_could_be_proven(self) -> bool:
        baseline = baseline_of(self._book.trials())
        measured = None if baseline is None else baseline.result.at(self.job.spec.load)
        return measured is not None and measured.verdict is not Verdict.MISSED

    def _case(self) -> Case:
        job = self.ledger.job(self.job.id)
        scored = self.ledger.scored(job.id)
        return case_of(job, self._book.trials(), scored, self.notes, self.ranges)
