"""The scheduler for long replays: requests that decode are scheduled all at once."""

from collections.abc import Iterable
from itertools import cycle, pairwise

from advisor.sim.decodes import Decodes
from advisor.sim.scheduler import Scheduler
from advisor.sim.steplog import TokenLog
from advisor.sim.steps import Batch, Limits, Run


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
        for index in self._turns(chunks):
            if index in chunks:
                self._grow(index, chunks[index])
                self._enter(batch, index, chunks[index])
            else:
                self.pool.take(1)
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
        decodes = self._decodes
        budget = self.limits.max_num_batched_tokens - len(decodes)
        blocks = len(decodes.growing())
        chunks: dict[int, int] = {}
        for index in self._others:
            count = min(self._outstanding(index), budget)
            if count <= 0:
                break
            chunks[index] = count
            budget -= count
            before = self.computed[index]
            blocks += self._blocks(before + count) - self._blocks(before)
        if blocks > self.pool.num_free or budget < 0:
            return None
        # The budget of the last in order is what is left; decodes behind it would go first here.
        return chunks if budget or self._others_last() else None

    def _turns(self, chunks: Iterable[int]) -> Iterable[int]:
        """Who is still to get blocks, in order of admission where that decides what is found."""
        growing = self._decodes.growing()
        if not growing:
            return chunks
        if not self._others_last():
            return sorted(growing.union(chunks))
        self.pool.take(len(growing))
        return chunks

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

    def run(self) -> Run | None:
        """The steps to come up to one that another request joins, leaves or might lack blocks in.

        None when that is the next.
        """
        count = len(self._decodes)
        budget = self.limits.max_num_batched_tokens - count
        if budget < 0 or not self.running:
            return None
        if self._others:
            run = self._prefill_run(count, budget)
        elif self.waiting and self._may_admit(budget):
            return None
        else:
            run = self._decode_run(count, budget)
        return run if run and run.blocks[0] <= self.pool.num_free else None

    def advance(self, steps: int, blocks: int) -> list[int]:
        """Do the first steps of a run, which need so many blocks; returns who is finished now."""
        self.pool.take(blocks)
        for index in self._others:
            before = self.computed[index]
            chunk = self.limits.max_num_batched_tokens - len(self._decodes)
            self.computed[index] = before + steps * chunk
            self._name(index, before, self.computed[index])
        ended = self._decodes.advance(steps)
        for index in ended:
            self._leave(index)
        return self._finish(ended)

    def _may_admit(self, budget: int) -> bool:
        """Whether the next step, after all that decodes, might admit."""
        limits = self.limits
        if budget == 0 or len(self.running) >= limits.max_num_seqs:
            return False
        # Room for a prompt of which nothing is cached saves the search.
        surely = self._blocks(self.tokens[self.waiting[0]]) <= self.pool.num_free
        return (surely and limits.enable_chunked_prefill) or self._admissible(budget) is not None

    def _decode_run(self, count: int, budget: int) -> Run:
        is_full = budget == 0 or count >= self.limits.max_num_seqs
        return Run(
            steps=self._decodes.steps_to_end(),
            sequences=count,
            total_tokens=count,
            context_tokens=self._decodes.context + count,
            prefill_pairs=0,
            more_pairs=0,
            blocks=self._decodes.growth(),
            is_closed=is_full or bool(self.waiting),
        )

    def _prefill_run(self, count: int, chunk: int) -> Run | None:
        """Steps in which a prompt takes all the budget that decodes leave, but for its last."""
        index, decodes = self._others[0], self._decodes
        before = self.computed[index]
        steps = (self.tokens[index] - before - 1) // max(chunk, 1)
        if count:
            steps = min(steps, decodes.steps_to_end())
        is_simple = len(self._others) == 1 and self._others_last() and chunk > 1
        if steps == 0 or not is_simple or self.limits.long_prefill_token_threshold:
            return None
        if self.limits.enable_prefix_caching and self.pool.has_copies(self._keys[index]):
            # Which copy serves next depends on what is forgotten in between.
            return None
        held = [self._blocks(before + i * chunk) for i in range(steps + 1)]
        growth = cycle(decodes.growth())
        return Run(
            steps=steps,
            sequences=count + 1,
            total_tokens=count + chunk,
            context_tokens=decodes.context + count + before + chunk,
            prefill_pairs=chunk * before + chunk * (chunk + 1) // 2,
            more_pairs=chunk * chunk,
            blocks=[b - a + more for (a, b), more in zip(pairwise(held), growth, strict=False)],
            is_closed=True,
        )
