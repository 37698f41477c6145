"""vLLM's V1 scheduler: which requests take part in the next step, and with how many tokens.

Follows vLLM 0.33.0 `vllm/v1/core/sched/scheduler.py`: first come first served, no speculation.
Requests are rows of flat lists, named by the index that `add` returns. This is the plain form, to
be read and to be checked against; `kernel.py` is the same, compiled.
"""

from collections import deque
from collections.abc import Hashable, Sequence

from advisor.sim.blocks import BlockPool
from advisor.sim.steps import Batch, Limits


class Scheduler:
    """Waiting and running requests over one block pool.

    With asynchronous scheduling `schedule` is called again before the step before is complete:
    a token that is on its way already counts as one of the request's.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.num_blocks)
        self.waiting: deque[int] = deque()
        #: in admission order
        self.running: list[int] = []
        # Columns, one row a request.
        self.prompt: list[int] = []
        self.planned_output: list[int] = []
        #: prompt and generated tokens, those on their way included
        self.tokens: list[int] = []
        #: of these, in the KV cache
        self.computed: list[int] = []
        #: generated tokens that have arrived
        self.emitted: list[int] = []
        #: blocks that it holds, in order
        self.block_table: list[list[int]] = []
        self.num_preempted: list[int] = []
        self.cached_tokens: list[int] = []
        #: (ids, prompt tokens that each covers)
        self._prefix: list[tuple[Sequence[int], int]] = []
        self._removed: set[int] = set()
        # Counters, as vLLM exports them.
        self.preemptions = 0
        self.prefix_queries = 0
        self.prefix_hits = 0

    def add(
        self,
        prompt_tokens: int,
        output_tokens: int,
        block_ids: Sequence[int] = (),
        block_tokens: int = 1,
    ) -> int:
        """Queue a request; returns its index.

        `block_ids` name the prompt's prefix up to each `block_tokens`-th token, the last one the
        whole prompt; an equal id is an equal prefix. Empty: the prompt shares nothing.
        """
        index = len(self.prompt)
        self.prompt.append(prompt_tokens)
        self.planned_output.append(output_tokens)
        self.tokens.append(prompt_tokens)
        self.computed.append(0)
        self.emitted.append(0)
        self.block_table.append([])
        self.num_preempted.append(0)
        self.cached_tokens.append(0)
        self._prefix.append((block_ids, block_tokens))
        self.waiting.append(index)
        return index

    # --- one step ---

    def schedule(self) -> Batch:
        """Choose the next step's requests within the token budget; may preempt."""
        batch = Batch()
        budget, preempted = self._schedule_running(batch)
        if not preempted:
            self._schedule_waiting(batch, budget)
        return batch

    def complete(self, batch: Batch) -> tuple[list[int], list[int]]:
        """End the step: (requests that got a token, those of them that are finished)."""
        emitted = [index for index in batch.emitting if index not in self._removed]
        for index in emitted:
            self.emitted[index] += 1
        finished = [i for i in emitted if self.emitted[i] == self.planned_output[i]]
        for index in finished:
            self._release(index)
        if finished:
            ended = set(finished)
            self.running = [index for index in self.running if index not in ended]
            # One that was preempted while its last token was on its way.
            if not ended.isdisjoint(self.waiting):
                self.waiting = deque(index for index in self.waiting if index not in ended)
        return emitted, finished

    def remove(self, index: int) -> None:
        """Take an unfinished request out, as when its client went away."""
        if index in self.running:
            self.running.remove(index)
            self._release(index)
        elif index in self.waiting:
            self.waiting.remove(index)
        self._removed.add(index)

    def _schedule_running(self, batch: Batch) -> tuple[int, bool]:
        """Running requests in admission order; returns (budget left, was any preempted)."""
        budget, preempted, position = self.limits.max_num_batched_tokens, False, 0
        while position < len(self.running) and budget > 0:
            index = self.running[position]
            position += 1
            if self.tokens[index] - self.prompt[index] == self.planned_output[index]:
                # Its last token is on its way.
                continue
            count = min(self._outstanding(index), budget)
            while not self._grow(index, count):
                preempted = True
                victim = self.running.pop()
                self._preempt(victim)
                if victim == index:
                    return budget, True
            self._enter(batch, index, count)
            budget -= count
        return budget, preempted

    def _schedule_waiting(self, batch: Batch, budget: int) -> None:
        """Admit in order while the head fits; a head that does not fit blocks all behind it."""
        while (hits := self._admissible(budget)) is not None:
            index = self.waiting.popleft()
            self._admit(index, hits)
            count = min(self._outstanding(index), budget)
            self._grow(index, count)
            self._enter(batch, index, count)
            budget -= count

    def _outstanding(self, index: int) -> int:
        """Tokens the request could compute now."""
        count = self.tokens[index] - self.computed[index]
        threshold = self.limits.long_prefill_token_threshold
        alone = len(self.running) + len(self.waiting) <= 1
        return threshold if 0 < threshold < count and not alone else count

    def _admissible(self, budget: int) -> list[int] | None:
        """The cached blocks with which the head of the queue can be admitted; None if it cannot.

        The whole prompt must find room at once, though only a chunk of it may be computed.
        """
        limits = self.limits
        if not self.waiting or budget <= 0 or len(self.running) >= limits.max_num_seqs:
            return None
        index = self.waiting[0]
        hits = self._cached_prefix(index)
        new_tokens = self.tokens[index] - len(hits) * limits.block_size
        if not limits.enable_chunked_prefill and new_tokens > budget:
            return None
        need = self._blocks(self.tokens[index]) - len(hits) + self.pool.count_idle(hits)
        return hits if need <= self.pool.num_free else None

    def _cached_prefix(self, index: int) -> list[int]:
        """Full blocks found from the start on, never with the last token, which is computed."""
        if not self.limits.enable_prefix_caching:
            return []
        full = (self.tokens[index] - 1) // self.limits.block_size
        return self.pool.find(self._key(index, position) for position in range(full))

    def _key(self, index: int, position: int) -> Hashable:
        """Names the content of one full block: equal where all tokens up to its end are."""
        size = self.limits.block_size
        ids, block_tokens = self._prefix[index]
        part = ((position + 1) * size - 1) // block_tokens
        if part < len(ids) and position < self.prompt[index] // size:
            return "shared", ids[part], position
        return "own", index, position

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)

    def _admit(self, index: int, hits: list[int]) -> None:
        self.pool.acquire(hits)
        self.block_table[index] = hits
        cached = len(hits) * self.limits.block_size
        self.computed[index] = cached
        if not self.num_preempted[index] and self.limits.enable_prefix_caching:
            # vLLM keeps what preempted requests find apart from these counters.
            self.prefix_queries += self.tokens[index]
            self.prefix_hits += cached
            self.cached_tokens[index] = cached
        self.running.append(index)

    def _grow(self, index: int, tokens: int) -> bool:
        """Advance by `tokens` and hold the blocks for them; False when the pool has none.

        Blocks that become full get their name now, so that a request later in the same step
        already finds them.
        """
        before, table = self.computed[index], self.block_table[index]
        after = before + tokens
        missing = self._blocks(after) - len(table)
        if missing > self.pool.num_free:
            return False
        table += self.pool.take(missing)
        self.computed[index] = after
        if self.limits.enable_prefix_caching:
            size = self.limits.block_size
            for position in range(before // size, after // size):
                self.pool.name(table[position], self._key(index, position))
        return True

    def _enter(self, batch: Batch, index: int, count: int) -> None:
        """The request takes part with `count` tokens; its context includes them already."""
        context = self.computed[index]
        batch.requests.append(index)
        batch.tokens.append(count)
        batch.total_tokens += count
        batch.context_tokens += context
        if count > 1:
            batch.prefills += 1
            batch.prefill_pairs += count * (context - count) + count * (count + 1) // 2
        if self.tokens[index] == self.prompt[index]:
            batch.prompt_requests += 1
            batch.prompt_tokens += count
        if context == self.tokens[index]:
            batch.emitting.append(index)
            self.tokens[index] += 1

    def _preempt(self, index: int) -> None:
        """All its KV is dropped; it will be computed again, before anything else waits."""
        self._release(index)
        self.num_preempted[index] += 1
        self.preemptions += 1
        self.waiting.appendleft(index)

    def _release(self, index: int) -> None:
        self.pool.release(self.block_table[index])
        self.block_table[index] = []
        self.computed[index] = 0
