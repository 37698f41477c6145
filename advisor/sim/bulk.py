"""The scheduler for long replays: requests that decode are scheduled all at once."""

from advisor.sim.decodes import Decodes
from advisor.sim.scheduler import Scheduler
from advisor.sim.steplog import TokenLog
from advisor.sim.steps import Batch, DecodeRun, Limits


class BulkScheduler(Scheduler):
    """Schedules exactly as `Scheduler` does, in less time.

    Requests that decode are kept apart, and only the others are visited in a step. Where tokens
    or blocks could run short, so that order decides who gets them, all are visited.
    A batch lists those visited; tokens of the others enter `log` when they stop decoding.
    """

    def __init__(self, limits: Limits, log: TokenLog) -> None:
        super().__init__(limits)
        self._log = log
        self._decodes = Decodes(limits.block_size)
        #: running and not in `_decodes`, in order of admission
        self._others: list[int] = []

    def schedule(self) -> Batch:
        chunks = self._chunks()
        if chunks is None:
            self._settle()
            batch = super().schedule()
            self._others = list(self.running)
            return batch
        decodes, running = self._decodes, len(self.running)
        count = len(decodes)
        batch = Batch([], [], count, decodes.context + count, decodes=count)
        turns = [*decodes.growing(), *chunks]
        if not self._others_last():
            turns.sort()
        for index in turns:
            if index in chunks:
                self._grow(index, chunks[index])
                self._enter(batch, index, chunks[index])
            else:
                self.tables[index] += self.pool.take(1)
        if self.waiting:
            self._schedule_waiting(batch, self.limits.max_num_batched_tokens - batch.total_tokens)
            self._others += self.running[running:]
        return batch

    def complete(self, batch: Batch) -> tuple[list[int], list[int]]:
        emitted = self._emit(batch)
        ended = self._decodes.advance(1)
        for index in ended:
            self._leave(index)
        finished = self._finish(sorted(ended + emitted) if ended else emitted)
        if emitted:
            visited = set(emitted)
            self._others = [i for i in self._others if i not in visited]
            for index in visited.difference(finished):
                left = self.prompt[index] + self.planned_output[index] - self.tokens[index]
                self._decodes.join(index, self.computed[index], left)
        return emitted, finished

    def remove(self, index: int) -> None:
        self._settle()
        super().remove(index)
        self._others = list(self.running)

    def _chunks(self) -> dict[int, int] | None:
        """Tokens of the others in the next step; None when somebody could go short."""
        decodes, size = self._decodes, self.limits.block_size
        budget = self.limits.max_num_batched_tokens - len(decodes)
        blocks = len(decodes.growing())
        chunks: dict[int, int] = {}
        for index in self._others:
            count = min(self._outstanding(index), budget)
            if count <= 0:
                break
            chunks[index] = count
            budget -= count
            blocks += -(-(self.computed[index] + count) // size) - len(self.tables[index])
        if blocks > self.pool.num_free or budget < 0:
            return None
        # The budget of the last in order is what is left; decodes behind it would go first here.
        return chunks if budget or self._others_last() else None

    def _others_last(self) -> bool:
        """Whether all that decode were admitted before any of the others."""
        return not self._others or self.running[-len(self._others)] == self._others[0]

    def _settle(self) -> None:
        """Nobody is kept apart any more."""
        for index in self._decodes.members():
            self._leave(index)

    def _leave(self, index: int) -> None:
        """Bring the row of a request that decodes up to date."""
        gained, before = self._decodes.leave(index), self.computed[index]
        self.computed[index] += gained
        self.tokens[index] += gained
        self._name(index, before, before + gained)
        if gained:
            self._log.add((index,), self._decodes.clock - gained, gained)

    # --- runs of steps whose composition cannot change ---

    def decode_run(self) -> DecodeRun | None:
        """The steps up to the next finish, if each just decodes what is running.

        None when the next step prefills, admits or preempts.
        """
        decodes, limits = self._decodes, self.limits
        count = len(decodes)
        budget = limits.max_num_batched_tokens - count
        if self._others or budget < 0 or len(decodes.growing()) > self.pool.num_free:
            return None
        if self.waiting and self._admissible(budget) is not None:
            return None
        return DecodeRun(
            sequences=count,
            context_tokens=decodes.context + count,
            steps=decodes.steps_to_end(),
            blocks=decodes.growth(),
            is_closed=bool(self.waiting) or budget == 0 or count >= limits.max_num_seqs,
        )

    def advance(self, steps: int) -> list[int]:
        """Do the first `steps` of a run at once; returns the requests finished by the last."""
        # The pool has room for the whole run, whoever asks first: blocks carry no history.
        for index, count in self._decodes.growing_within(steps):
            self.tables[index] += self.pool.take(count)
        ended = self._decodes.advance(steps)
        for index in ended:
            self._leave(index)
        return self._finish(ended)
