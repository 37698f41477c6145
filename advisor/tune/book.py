"""The trials of one job, each written down before and after it runs."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from advisor.terms.errors import AdvisorError, Blocked, LedgerError, TargetError
from advisor.terms.job import Phase, Proposal, Replay, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.reasons import Effect
from advisor.tune.ports import Ledger
from advisor.tune.trial import Keep
from advisor.tune.watch import Watch


@dataclass(frozen=True, slots=True)
class Book:
    """Between the conductor and the ledger; tells the watch of what it writes."""

    job_id: str
    ledger: Ledger
    watch: Watch

    def trials(self) -> list[Trial]:
        return self.ledger.trials(self.job_id)

    def open(
        self,
        phase: Phase,
        proposal: Proposal,
        round_: int | None = None,
        repeat: int | None = None,
    ) -> int:
        number = self.ledger.open_trial(self.job_id, phase, proposal, round_, repeat)
        self.watch.trial_opened(number, phase, proposal.setting)
        return number

    def keep(self, number: int) -> Keep:
        """What a running trial has written down as it goes."""

        def token(token: str) -> None:
            self.ledger.mark(self.job_id, number, token)

        def replay(replay: Replay) -> None:
            self.ledger.add_replay(self.job_id, number, replay)

        return Keep(token, replay)

    async def to_its_end(self, number: int, run: Awaitable[TrialResult]) -> Trial:
        """The closed trial; one that ends the job is closed too, before the job is.

        Raises Blocked where nothing more can run here.
        """
        try:
            result = await run
        except Blocked as exc:
            self._close(number, TrialResult(TrialState.FAILED, exc.failure, note=str(exc)))
            raise
        except TargetError as exc:
            self._close(number, TrialResult(TrialState.FAILED, note=str(exc)))
            raise
        except (asyncio.CancelledError, KeyboardInterrupt, AdvisorError):
            # cut off, or let down by this machine: whoever goes on launches it again. The
            # database may be what failed; then whoever claims the job closes the trial
            with suppress(LedgerError):
                self.ledger.close_trial(self.job_id, number, TrialResult(TrialState.INTERRUPTED))
            raise
        trial = self._close(number, result)
        failure = result.failure
        if failure is not None and failure.rule.effect is Effect.BLOCKS:
            raise Blocked(f"{failure.reason}: {failure.message}", failure)
        return trial

    def _close(self, number: int, result: TrialResult) -> Trial:
        self.ledger.close_trial(self.job_id, number, result)
        trial = self.trials()[number]
        self.watch.trial_closed(trial)
        return trial
